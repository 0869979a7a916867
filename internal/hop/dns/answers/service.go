package answers

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/model"
)

// service is every name of one Service. It is replaced as a whole, so that a client never sees half of a change.
type service struct {
	self  *entry
	below map[string]*entry // by the labels in front of the Service's name, in wire format
	ptrs  []pointer         // sorted by address
}

// pointer says that the reverse name of addr points to target (wire format).
type pointer struct {
	addr   netip.Addr
	target []byte
}

func (p pointer) compare(o pointer) int { return p.addr.Compare(o.addr) }

func (s *service) equal(o *service) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.self.equal(o.self) && maps.EqualFunc(s.below, o.below, (*entry).equal) &&
		slices.EqualFunc(s.ptrs, o.ptrs, func(a, b pointer) bool { return a.addr == b.addr && bytes.Equal(a.target, b.target) })
}

// serviceKey is the Service's two labels in wire format, as they stand in its names.
func serviceKey(n model.Name) string {
	return string(appendLabel(appendLabel(make([]byte, 0, len(n.Name)+len(n.Namespace)+2), n.Name), n.Namespace))
}

func nameOfKey(key string) model.Name {
	return model.N(key[2+key[0]:], key[1:1+key[0]])
}

// compile makes the names of a Service; nil when it has none. Sections are those of the specification.
func (z *zone) compile(svc *model.Service, b *model.Backends) *service {
	if svc == nil || !validLabel(svc.Name.Name) || !validLabel(svc.Name.Namespace) || z.only != nil && !z.only[svc.Name.Namespace] ||
		svc.Headless && z.bare {
		return nil
	}
	name := append([]byte(serviceKey(svc.Name)), z.svc...)
	c := compiler{zone: z, name: name, out: &service{below: map[string]*entry{}}, srv: map[string]*set{}}
	switch {
	case len(name) > 255:
		return nil
	case svc.Type == model.ExternalName: // 2.5
		return c.external(svc.ExternalName)
	case svc.Headless: // 2.4
		return c.headless(b)
	case len(svc.ClusterIPs) > 0: // 2.3
		return c.clusterIP(svc)
	}
	return nil
}

// compiler collects the names of one Service.
type compiler struct {
	*zone
	name []byte // of the Service, wire format
	out  *service
	srv  map[string]*set // by labels in front of the Service's name
}

func (c *compiler) external(target string) *service {
	if _, err := netip.ParseAddr(target); err == nil { // no host name; "1.2.3.4." asked upstream is a question to the root
		c.out.self = &entry{}
		return c.out
	}
	wire, err := wireName(target)
	if err != nil || len(wire) == 1 {
		return nil
	}
	var cname set
	cname.add(dns.TypeCNAME, c.ttl, wire)
	c.out.self = newEntry(cname)
	c.out.self.alias = dns.Fqdn(target)
	return c.out
}

func (c *compiler) clusterIP(svc *model.Service) *service {
	addrs := sortedAddrs(svc.ClusterIPs)
	c.out.self = newEntry(addressSets(addrs, c.ttl)...)
	for _, a := range addrs {
		c.out.ptrs = append(c.out.ptrs, pointer{a, c.name})
	}
	for _, p := range svc.Ports {
		s, prefix := c.srvSet(p.Name, p.Protocol)
		if s == nil {
			continue
		}
		s.add(dns.TypeSRV, c.ttl, srvData(100, p.Port, c.name))
		for _, a := range addrs {
			s.addExtra(questionAt(prefix), a, c.ttl)
		}
	}
	return c.finish()
}

// srvSet returns the set of _port._proto and the length of these labels; nil when the port has no name.
func (c *compiler) srvSet(port string, proto model.Protocol) (*set, int) {
	if port == "" || len(port) > 62 || proto == "" {
		return nil, 0
	}
	key := string(appendLabel(appendLabel(nil, "_"+port), "_"+string(proto)))
	if len(key)+len(c.name) > 255 {
		return nil, 0
	}
	s := c.srv[key]
	if s == nil {
		s = &set{}
		c.srv[key] = s
	}
	return s, len(key)
}

// finish puts the SRV sets in place, with the empty non-terminal _proto above each (RFC 8020).
func (c *compiler) finish() *service {
	for key, s := range c.srv {
		c.out.below[key] = newEntry(*s)
		c.out.below[key[1+int(key[0]):]] = &entry{}
	}
	return c.out
}

// questionAt is a compression pointer to the question's name without its first n bytes.
func questionAt(n int) []byte {
	return binary.BigEndian.AppendUint16(nil, 0xc000|uint16(headerSize+n))
}

// srvData is priority 0, weight, port and target; RFC 2782 forbids to compress the target.
func srvData(weight, port uint16, target []byte) []byte {
	out := make([]byte, 2, 6+len(target))
	out = binary.BigEndian.AppendUint16(out, weight)
	out = binary.BigEndian.AppendUint16(out, port)
	return append(out, target...)
}

func sortedAddrs(in []netip.Addr) []netip.Addr {
	out := slices.DeleteFunc(slices.Clone(in), func(a netip.Addr) bool { return !a.IsValid() })
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// addressLabel is the label of an endpoint without a host name: its address with dashes, as CoreDNS spells it.
func addressLabel(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}
