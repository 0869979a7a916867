package link

import (
	"testing"

	"github.com/miekg/dns"
)

// FuzzTake takes any datagram for an answer: only one that repeats the question ends the call, and nothing breaks.
func FuzzTake(f *testing.F) {
	q := ask("x.example.")
	f.Add(pack(f, reply(q)))
	f.Add(pack(f, q))
	f.Add(pack(f, &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Rcode: dns.RcodeRefused}}))
	f.Add([]byte("\x00\x00\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x01x\x07example\x00\x00\x01\x00\x01\xc0\x1b\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04"))
	f.Add([]byte("\x00\x00\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		ask, err := newQuestion(q)
		if err != nil {
			t.Fatal(err)
		}
		var c calls
		id, k, err := c.add(ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(msg) >= 2 {
			msg[0], msg[1] = byte(id>>8), byte(id)
		}
		c.take(msg)
		if c.count() != 0 {
			return
		}
		bare := len(msg) == headerSize
		if k.msg == nil || !k.msg.Response || !bare && (len(k.msg.Question) != 1 || k.msg.Question[0].Qtype != dns.TypeA ||
			dns.CanonicalName(k.msg.Question[0].Name) != "x.example.") {
			t.Fatalf("%x was taken: %v", msg, k.msg)
		}
	})
}
