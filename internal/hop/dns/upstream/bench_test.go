package upstream

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// BenchmarkAnswer answers from the cache, over 10,000 names, all that is done for a datagram between reading and sending.
func BenchmarkAnswer(b *testing.B) {
	const names = 10_000
	f := New(Options{Cache: CacheOptions{Entries: 2 * names}})
	c := newClient(b)
	var asked [][]byte
	for i := range names {
		q := question(fmt.Sprintf("n%05d.bench.example.", i))
		k, err := keyOf(q, make([]byte, 256))
		if err != nil {
			b.Fatal(err)
		}
		m := new(dns.Msg).SetReply(q)
		records(q.Question[0].Name+" 3600 IN A 192.0.2.1")(false, q, m)
		if _, err := f.land(k, m, nil, 0); err != nil {
			b.Fatal(err)
		}
		asked = append(asked, mustPack(q))
	}
	now := time.Now().Add(5 * time.Second)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		msg := asked[i*7919%names]
		if _, r := c.view.Answer(&c.q, c.out, msg, false, 0); r.Kind != answers.Foreign {
			b.Fatal("a name of the cluster")
		}
		if _, _, ok := f.Answer(c.q.Asked(false), c.out, msg, uint32(i), now); !ok {
			b.Fatal("not at hand")
		}
	}
}
