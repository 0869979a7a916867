package packet

import (
	"bytes"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// FuzzAnswer takes whatever a server may send. What is kept must go out to any client as a message that reads back with
// the same records, within the client's limit.
func FuzzAnswer(f *testing.F) {
	add := func(m *dns.Msg) {
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, uint16(512), uint32(1), uint32(1))
	}
	add(message(f, "x.example.", dns.TypeA, "x.example. 60 IN CNAME Y.example.", "y.example. 60 IN A 192.0.2.1", "y.example. 60 IN A 192.0.2.2", "--", "example. 5 IN NS a.example.", "--", "a.example. 3 IN AAAA 2001:db8::1"))
	add(message(f, "x.example.", dns.TypeMX, "--", "example. 60 IN SOA ns.example. h.example. 1 2 3 4 5"))
	add(message(f, "x.example.", dns.TypeTXT, "x.example. 60 IN TXT \"a\" \"b\"", "x.example. 60 IN RRSIG TXT 8 2 60 20300101000000 20200101000000 1 example. AAAA"))
	header := "\x00\x01\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"
	f.Add([]byte(header+"\x01x\x00\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x01\x02"), uint16(512), uint32(0), uint32(0)) // cut short
	f.Add([]byte(header+"\x01x\x00\x00\x01\x00\x01\xc0\x13\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x02\xc0\x13"), uint16(512), uint32(0), uint32(0)) // a pointer to itself
	f.Add([]byte(header+"\xc0\x0c\x00\x01\x00\x01"), uint16(512), uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, wire []byte, limit uint16, turn, age uint32) {
		m := new(dns.Msg)
		if m.Unpack(wire) != nil || len(m.Question) != 1 {
			return
		}
		life, _ := Limits{Max: time.Hour, MaxNegative: time.Minute}.Apply(m)
		if life < 0 || life > time.Hour {
			t.Fatalf("kept for %v", life)
		}
		a, err := New(m)
		if err != nil {
			return
		}
		q := new(dns.Msg)
		q.Question = m.Question
		q.SetEdns0(1232, true)
		head, err := q.Pack()
		if err != nil {
			return
		}
		end, ok := skipName(head, headerSize)
		if !ok {
			return
		}
		c := Client{Query: head[:end+4], Limit: max(int(limit), 512), EDNS: true, DO: true, Offer: 1232}
		out := a.AppendTo(nil, c, Life{Age: age}, turn)
		if len(out) > c.Limit {
			t.Fatalf("%d bytes for a client that takes %d", len(out), c.Limit)
		}
		got := new(dns.Msg)
		if err := got.Unpack(out); err != nil {
			t.Fatalf("%v\nkept %v\nsent %x", err, m, out)
		}
		if !got.Truncated && len(got.Answer) != len(m.Answer) {
			t.Fatalf("%d of %d records without TC", len(got.Answer), len(m.Answer))
		}
		c.Limit = dns.MaxMsgSize
		whole := a.AppendTo(nil, c, Life{}, 0)
		if again := a.AppendTo(nil, c, Life{}, 0); !bytes.Equal(whole, again) {
			t.Fatal("an answer changed by being sent")
		}
	})
}
