package dnspeer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Question is one question and what the right answer looks like.
type Question struct {
	Name    string
	Type    uint16
	Rcode   int
	Answers int // records in the answer section
}

// Ask is how many questions a list has: as many as there are IDs.
const Ask = 1 << 16

// MixText says what Questions holds.
const MixText = "30% A, 20% AAAA without data, 10% headless A, 5% SRV, 5% PTR, 30% search-list NXDOMAIN"

// Questions is a random mix, the same for each seed: MixText.
func (c Cluster) Questions(seed uint64) []Question {
	r := rand.New(rand.NewPCG(seed, 53))
	out := make([]Question, Ask)
	for i := range out {
		out[i] = c.question(r)
	}
	return out
}

func (c Cluster) question(r *rand.Rand) Question {
	i := r.IntN(c.Services)
	p := r.IntN(100)
	head := 60 <= p && p < 70
	if c.headless(i) != head {
		i -= i % 10
		if !head {
			i += 1 + r.IntN(9)
		}
	}
	name := fmt.Sprintf("%s.%s.svc.cluster.local.", c.name(i), c.namespace(i))
	switch {
	case p < 30:
		return Question{name, dns.TypeA, dns.RcodeSuccess, 1}
	case p < 50:
		return Question{name, dns.TypeAAAA, dns.RcodeSuccess, 0}
	case p < 55:
		return Question{"_http._tcp." + name, dns.TypeSRV, dns.RcodeSuccess, 1}
	case p < 60:
		rev, _ := dns.ReverseAddr(netip.MustParseAddr(c.clusterIP(i)).String())
		return Question{rev, dns.TypePTR, dns.RcodeSuccess, 1}
	case p < 70:
		return Question{name, dns.TypeA, dns.RcodeSuccess, c.perHeadless()}
	}
	world := []string{"www.example.com", "api.github.com", "s3.eu-west-1.amazonaws.com", "db.internal.example.org"}[r.IntN(4)]
	suffix := []string{c.namespace(i) + ".svc.cluster.local.", "svc.cluster.local.", "cluster.local."}[r.IntN(3)]
	return Question{world + "." + suffix, []uint16{dns.TypeA, dns.TypeAAAA}[r.IntN(2)], dns.RcodeNameError, 0}
}

// Wire packs questions as a stub resolver does: no EDNS, recursion desired, ID 0.
func Wire(questions []Question) ([][]byte, error) {
	out := make([][]byte, len(questions))
	for i, q := range questions {
		m := new(dns.Msg).SetQuestion(q.Name, q.Type)
		m.Id = 0
		wire, err := m.Pack()
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", q.Name, err)
		}
		out[i] = wire
	}
	return out, nil
}

// ZoneFile is the cluster's names as a static zone.
func (c Cluster) ZoneFile() string {
	var b strings.Builder
	b.WriteString("$ORIGIN cluster.local.\n$TTL 5\n@ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\n")
	for i := range c.Services {
		at := fmt.Sprintf("%s.%s.svc", c.name(i), c.namespace(i))
		if !c.headless(i) {
			fmt.Fprintf(&b, "%s A %s\n_http._tcp.%s SRV 0 100 80 %s\n", at, c.clusterIP(i), at, at)
			continue
		}
		for e := range c.perHeadless() {
			fmt.Fprintf(&b, "%s A %s\n", at, c.podIP(i, e))
		}
	}
	return b.String()
}

// ReverseFile is the reverse names of its ClusterIPs, as a static zone.
func (c Cluster) ReverseFile() string {
	var b strings.Builder
	b.WriteString("$ORIGIN 10.in-addr.arpa.\n$TTL 5\n@ SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5\n@ NS ns.dns.cluster.local.\n")
	for i := range c.Services {
		if !c.headless(i) {
			rev, _ := dns.ReverseAddr(c.clusterIP(i))
			fmt.Fprintf(&b, "%s PTR %s.%s.svc.cluster.local.\n", rev, c.name(i), c.namespace(i))
		}
	}
	return b.String()
}
