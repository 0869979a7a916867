package packet

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// seeds are answers, sound and broken.
func seeds(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, m := range []*dns.Msg{
		message(t, "x.example.", dns.TypeA, "x.example. 60 IN CNAME Y.example.", "y.example. 60 IN A 192.0.2.1", "y.example. 60 IN A 192.0.2.2", "--", "example. 5 IN NS a.example.", "--", "a.example. 3 IN AAAA 2001:db8::1"),
		message(t, "x.example.", dns.TypeMX, "--", "example. 60 IN SOA ns.example. h.example. 1 2 3 4 5"),
		message(t, "x.example.", dns.TypeTXT, "x.example. 60 IN TXT \"a\" \"b\"", "x.example. 60 IN RRSIG TXT 8 2 60 20300101000000 20200101000000 1 example. AAAA"),
		message(t, "x.example.", dns.TypeAAAA, "x.example. 60 IN AAAA 2001:db8::1", "x.example. 60 IN AAAA 2001:db8::2", "x.example. 60 IN AAAA 2001:db8::3"),
		message(t, "x.example.", dns.TypeHTTPS, "x.example. 60 IN HTTPS 1 y.example. alpn=h2 ipv4hint=192.0.2.1"),
	} {
		for _, compress := range []bool{false, true} {
			m.Compress = compress
			wire, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, wire)
		}
	}
	const header = "\x00\x01\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"
	for _, rest := range []string{
		"\x01x\x00\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x01\x02", // cut short
		"\x01x\x00\x00\x01\x00\x01\xc0\x13\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x02\xc0\x13", // a pointer to itself
		"\xc0\x0c\x00\x01\x00\x01", // the question too
		"\x01x\x00\x00\x01\x00\x01\xc0\x1f\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x13\xc0\x0c", // two in a circle
	} {
		out = append(out, []byte(header+rest))
	}
	return out
}

// FuzzAnswer takes whatever a server may send. What is kept must go out to any client as a message that reads back with
// the same records, within the client's limit.
func FuzzAnswer(f *testing.F) {
	for _, wire := range seeds(f) {
		f.Add(wire, uint16(512), uint32(1), uint32(1))
	}
	f.Fuzz(goesOut)
}

func TestMutatedAnswersGoOutOrAreLeft(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := seeds(t)
	for range 10_000 {
		wire := bytes.Clone(all[r.IntN(len(all))])
		for range 1 + r.IntN(4) {
			switch at := r.IntN(len(wire)); r.IntN(4) {
			case 0:
				wire[at] = byte(r.Uint32())
			case 1:
				wire[at] ^= 1 << r.IntN(8)
			case 2:
				wire = append(wire[:max(at, 1)], wire[min(len(wire), at+r.IntN(8)):]...)
			case 3:
				wire[at] = 0xc0
			}
		}
		goesOut(t, wire, uint16(r.Uint32()), r.Uint32(), r.Uint32())
	}
}

func goesOut(t *testing.T, wire []byte, limit uint16, turn, age uint32) {
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
}
