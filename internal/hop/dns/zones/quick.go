package zones

import (
	"bytes"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
)

// Cached is an Upstream that has answers at hand.
type Cached interface {
	// Answer appends to dst[:0] the answer that is at hand, and its rcode; false = none. It allocates nothing.
	Answer(a answers.Asked, dst, msg []byte, turn uint32, now time.Time) ([]byte, int, bool)
}

// quick says for which names the first forward that holds them is asked and nothing else: those that are neither in names
// nor under zones. Names are in wire format, lower case.
type quick struct {
	off   bool // for none
	names map[string]struct{}
	zones [][]byte
	to    []quickForward
}

type quickForward struct {
	cached Cached
	zone   []byte
	except [][]byte
}

// quick weighs a block anew; view is how much of the cluster's view is answered where it was read.
func (b *block) quick(view uint32) *quick {
	q := &quick{names: map[string]struct{}{}}
	q.off = b.c.Minimal || len(b.c.ACL) > 0 || len(b.c.Log) > 0
	for i := range b.rewrites {
		switch c := b.rewrites[i].c; {
		case c.Field == config.RewriteClass && c.FromClass != dns.ClassINET, c.Field == config.RewriteType && c.FromType == dns.TypeANY:
		case c.Field != config.RewriteType && c.Field != config.RewriteClass && c.Match == config.Exact:
			q.name(c.From)
		default:
			q.off = true
		}
	}
	for _, t := range b.templates {
		q.under(t.zones...)
	}
	for _, f := range b.files {
		q.under(f.zone)
	}
	if b.hosts != nil {
		b.hosts.quick(q)
	}
	if b.c.Cluster != nil && view < forward {
		q.under(b.c.Cluster.Domain)
	}
	if b.c.Cluster != nil && view < both {
		q.under("arpa.")
	}
	for _, f := range b.forwards {
		one := quickForward{zone: wire(f.c.Zone)}
		if one.cached, _ = f.up.(Cached); one.cached == nil || len(f.c.Next) > 0 {
			q.off = true
			break
		}
		for _, e := range f.c.Except {
			one.except = append(one.except, wire(e))
		}
		q.to = append(q.to, one)
	}
	return q
}

// quick tells which names the entries are about.
func (h *hosts) quick(q *quick) {
	if !h.c.Fall.On || len(h.c.Fall.Zones) > 0 {
		q.under(h.zones...)
		return
	}
	t := h.now.Load()
	for name := range t.names {
		if name[0] == '*' {
			q.under(name[2:])
		}
		q.name(name)
	}
	if !h.c.NoReverse && len(t.addrs) > 0 {
		q.under("arpa.")
	}
}

func (q *quick) name(name string) { q.names[string(wire(name))] = struct{}{} }

func (q *quick) under(zones ...string) {
	for _, z := range zones {
		q.zones = append(q.zones, wire(z))
	}
}

// wire is a name in wire format; one that cannot be written so is the root, which is on the safe side.
func wire(name string) []byte {
	buf := make([]byte, 256)
	n, err := dns.PackDomainName(dns.Fqdn(name), buf, 0, nil, false)
	if err != nil {
		return []byte{0}
	}
	return slices.Clip(buf[:n])
}

// underWire reports whether a name is zone or below it.
func underWire(name, zone []byte) bool {
	for at := 0; len(name)-at >= len(zone); at += 1 + int(name[at]) {
		if len(name)-at == len(zone) {
			return bytes.Equal(name[at:], zone)
		}
	}
	return false
}

// Cached answers what a forward has at hand, as server.Cached wants it, when no setting of the name's block has a say.
func (t *Table) Cached(a answers.Asked, dst, msg []byte, turn uint32, now time.Time) ([]byte, int, bool) {
	q := t.quickFor(a.Name)
	if q == nil || q.off {
		return nil, 0, false
	}
	if len(q.names) > 0 {
		if _, own := q.names[string(a.Name)]; own {
			return nil, 0, false
		}
	}
	for _, z := range q.zones {
		if underWire(a.Name, z) {
			return nil, 0, false
		}
	}
	for i := range q.to {
		f := &q.to[i]
		if underWire(a.Name, f.zone) && !f.excepts(a.Name) {
			return f.cached.Answer(a, dst, msg, turn, now)
		}
	}
	return nil, 0, false
}

func (f *quickForward) excepts(name []byte) bool {
	for _, e := range f.except {
		if underWire(name, e) {
			return true
		}
	}
	return false
}

// quickFor finds the block of a name in wire format.
func (t *Table) quickFor(name []byte) *quick {
	all := *t.quick.Load()
	if len(all) == 1 {
		if q := all["\x00"]; q != nil {
			return q
		}
	}
	for at := 0; at < len(name); at += 1 + int(name[at]) {
		if q := all[string(name[at:])]; q != nil {
			return q
		}
	}
	return nil
}
