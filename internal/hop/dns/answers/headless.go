package answers

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/model"
)

// target is one ready endpoint of a headless Service under its own name.
type target struct {
	label string // host name, else the address with dashes
	addr  netip.Addr
}

func (t target) compare(o target) int {
	return cmp.Or(t.addr.Compare(o.addr), strings.Compare(t.label, o.label))
}

// srvKey is one named port of endpoints.
type srvKey struct {
	port   string
	proto  model.Protocol
	number uint16
	label  string
}

// headless makes the names of a headless Service from its ready endpoints; without any there is no name (2.4.1). An
// endpoint that stands in two slices counts once, and as ready when one of them says so.
func (c *compiler) headless(b *model.Backends) *service {
	var targets []target
	ports := map[srvKey]bool{}
	b.Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		if !e.Ready || !e.Addr.IsValid() {
			return
		}
		t := target{strings.ToLower(e.Hostname), e.Addr.Unmap()}
		if t.label == "" && c.podNames {
			t.label = strings.ToLower(e.Pod.Name)
		}
		if !validLabel(t.label) || len(t.label)+1+len(c.name) > 255 {
			t.label = addressLabel(t.addr)
		}
		targets = append(targets, t)
		for _, p := range sl.Ports {
			if p.Name != "" && p.Port != 0 {
				ports[srvKey{p.Name, p.Protocol, p.Port, t.label}] = true
			}
		}
	})
	if len(targets) == 0 {
		return nil
	}
	slices.SortFunc(targets, target.compare)
	targets = slices.Compact(targets)
	byLabel := c.endpointNames(targets)
	c.headlessSRV(ports, byLabel)
	return c.finish()
}

// endpointNames makes the addresses of the Service and of each endpoint's name, and the way back.
func (c *compiler) endpointNames(targets []target) map[string][]netip.Addr {
	byLabel := make(map[string][]netip.Addr, len(targets))
	all := make([]netip.Addr, 0, len(targets))
	for _, t := range targets {
		all = append(all, t.addr)
		byLabel[t.label] = append(byLabel[t.label], t.addr)
		c.out.ptrs = append(c.out.ptrs, pointer{t.addr, c.below(t.label)})
	}
	c.out.self = newEntry(addressSets(slices.Compact(all), c.ttl)...)
	for label, addrs := range byLabel {
		c.out.below[string(appendLabel(nil, label))] = newEntry(addressSets(addrs, c.ttl)...)
	}
	return byLabel
}

// below is the wire format of label in front of the Service's name.
func (c *compiler) below(label string) []byte {
	return append(appendLabel(make([]byte, 0, len(label)+1+len(c.name)), label), c.name...)
}

// headlessSRV makes one SRV record per endpoint and named port (2.4.2), and the endpoints' addresses beside them.
func (c *compiler) headlessSRV(ports map[srvKey]bool, byLabel map[string][]netip.Addr) {
	keys := make([]srvKey, 0, len(ports))
	count := map[*set]int{}
	for k := range ports {
		if s, _ := c.srvSet(k.port, k.proto); s != nil {
			keys = append(keys, k)
			count[s]++
		}
	}
	slices.SortFunc(keys, func(a, b srvKey) int {
		return cmp.Or(strings.Compare(a.port, b.port), strings.Compare(string(a.proto), string(b.proto)),
			strings.Compare(a.label, b.label), cmp.Compare(a.number, b.number))
	})
	last := map[*set]string{}
	for _, k := range keys {
		s, prefix := c.srvSet(k.port, k.proto)
		s.add(dns.TypeSRV, c.ttl, srvData(uint16(max(1, 100/count[s])), k.number, c.below(k.label)))
		if last[s] == k.label {
			continue // the same endpoint by another number
		}
		last[s] = k.label
		owner := append(appendLabel(nil, k.label), questionAt(prefix)...)
		for _, a := range byLabel[k.label] {
			s.addExtra(owner, a, c.ttl)
		}
	}
}
