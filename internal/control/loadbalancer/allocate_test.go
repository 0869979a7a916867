package loadbalancer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/model"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func pool(name, ranges string, edit ...func(*model.Pool)) *model.Pool {
	p := &model.Pool{Name: name, AutoAssign: true}
	for _, r := range strings.Fields(ranges) {
		from, to, ok := strings.Cut(r, "-")
		if !ok {
			to = from
		}
		p.Ranges = append(p.Ranges, model.AddrRange{From: ip(from), To: ip(to)})
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func byHand(p *model.Pool) { p.AutoAssign = false }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// svc is a Service of type LoadBalancer; has is what its status says.
func svc(name, has string, edit ...func(*model.Service)) *model.Service {
	s := &model.Service{Name: model.N("shop", name), UID: "uid-" + name, Type: model.LoadBalancer, IPFamilies: []string{"IPv4"}, Created: epoch}
	for _, a := range strings.Fields(has) {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, model.LoadBalancerIP{Addr: ip(a)})
	}
	for _, e := range edit {
		e(s)
	}
	return s
}

func note(key, value string) func(*model.Service) {
	return func(s *model.Service) { s.Annotations = map[string]string{key: value} }
}

func dual(s *model.Service) { s.IPFamilies = []string{"IPv4", "IPv6"} }

func snap(objs ...any) *model.Snapshot {
	b := model.NewBuilder(nil)
	for _, o := range objs {
		b.Put(o)
	}
	return b.Snapshot(epoch)
}

func text(list []Assignment) string {
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, "%s [%s] %s: %s\n", a.Service.Name.Name, join(a.Addrs), a.Reason, a.Message)
	}
	return b.String()
}

func TestAllocate(t *testing.T) {
	for name, c := range map[string]struct {
		objs []any
		want string
	}{
		"the first free address of the first pool": {[]any{pool("b", "198.51.100.1"), pool("a", "192.0.2.1-192.0.2.9"), svc("x", ""), svc("y", "")},
			"x [192.0.2.1] IPAllocated: has 192.0.2.1\ny [192.0.2.2] IPAllocated: has 192.0.2.2\n"},
		"what it has it keeps": {[]any{pool("a", "192.0.2.1-192.0.2.9"), svc("x", "192.0.2.7"), svc("w", "")},
			"w [192.0.2.1] IPAllocated: has 192.0.2.1\nx [192.0.2.7] IPAllocated: has 192.0.2.7\n"},
		"of two that have it the older keeps it": {[]any{pool("a", "192.0.2.1-192.0.2.9"), svc("x", "192.0.2.7"),
			svc("y", "192.0.2.7", func(s *model.Service) { s.Created = epoch.Add(-time.Hour) })},
			"x [192.0.2.1] IPAllocated: has 192.0.2.1\ny [192.0.2.7] IPAllocated: has 192.0.2.7\n"},
		"none left": {[]any{pool("a", "192.0.2.1"), svc("x", "192.0.2.1"), svc("y", "")},
			"x [192.0.2.1] IPAllocated: has 192.0.2.1\ny [] AllocationFailed: no AddressPool has a free IPv4 address\n"},
		"no pool": {[]any{svc("x", "")}, "x [] AllocationFailed: the cluster has no AddressPool\n"},
		"an unusable pool gives nothing and takes nothing": {[]any{pool("a", "192.0.2.1-192.0.2.9", func(p *model.Pool) { p.Problem = "bad" }), svc("x", "192.0.2.7"), svc("y", "")},
			"x [192.0.2.7] IPAllocated: has 192.0.2.7\ny [] AllocationFailed: no AddressPool has IPv4 addresses to give\n"},
		"a pool without autoAssign gives on request": {[]any{pool("a", "192.0.2.1-192.0.2.9", byHand), svc("x", ""), svc("y", "", note(AnnotationPool, "a"))},
			"x [] AllocationFailed: no AddressPool has IPv4 addresses to give\ny [192.0.2.1] IPAllocated: has 192.0.2.1\n"},
		"spec.loadBalancerIP": {[]any{pool("a", "192.0.2.1-192.0.2.9", byHand), svc("x", "", func(s *model.Service) { s.RequestedLBIP = ip("192.0.2.5") })},
			"x [192.0.2.5] IPAllocated: has 192.0.2.5\n"},
		"the annotation is stronger": {[]any{pool("a", "192.0.2.1-192.0.2.9"), svc("x", "", func(s *model.Service) { s.RequestedLBIP = ip("192.0.2.5") }, note(AnnotationIPs, "192.0.2.6"))},
			"x [192.0.2.6] IPAllocated: has 192.0.2.6\n"},
		"an address asked for goes before others": {[]any{pool("a", "192.0.2.1-192.0.2.9"), svc("a", "192.0.2.1"), svc("x", "192.0.2.5", note(AnnotationIPs, "192.0.2.1"))},
			"a [192.0.2.1] IPAllocated: has 192.0.2.1\nx [192.0.2.5] AddressTaken: keeps 192.0.2.5; 192.0.2.1 is taken: Service shop/a\n"},
		"asked for and of no pool": {[]any{pool("a", "192.0.2.1-192.0.2.9"), svc("x", "", note(AnnotationIPs, "8.8.8.8"))},
			"x [] AddressNotInPool: 8.8.8.8 is in no AddressPool\n"},
		"another pool asked for": {[]any{pool("a", "192.0.2.1-192.0.2.9"), pool("b", "198.51.100.1-198.51.100.9"), svc("x", "192.0.2.7", note(AnnotationPool, "b"))},
			"x [198.51.100.1] IPAllocated: has 198.51.100.1\n"},
		"a pool that is not there": {[]any{pool("a", "192.0.2.1-192.0.2.9"), svc("x", "192.0.2.7", note(AnnotationPool, "gone"))},
			"x [192.0.2.7] InvalidRequest: keeps 192.0.2.7; annotation podway.io/address-pool: there is no AddressPool \"gone\"\n"},
		"rubbish asked for": {[]any{pool("a", "192.0.2.1-192.0.2.9"), svc("x", "", note(AnnotationIPs, "1.2.3"))},
			"x [] InvalidRequest: annotation podway.io/load-balancer-ips: \"1.2.3\" is no address\n"},
		"both families, from one pool if it has them": {[]any{pool("a", "192.0.2.1"), pool("b", "198.51.100.1 2001:db8::1-2001:db8::f"), svc("x", "198.51.100.1", dual)},
			"x [198.51.100.1, 2001:db8::1] IPAllocated: has 198.51.100.1, 2001:db8::1\n"},
		"one family of two": {[]any{pool("a", "192.0.2.1"), svc("x", "", dual)},
			"x [192.0.2.1] IPPartlyAllocated: has 192.0.2.1; no AddressPool has IPv6 addresses to give\n"},
		"addresses of nodes and externalIPs are not given": {[]any{pool("a", "192.0.2.1-192.0.2.9"), &model.Node{Name: "n", Addrs: []netip.Addr{ip("192.0.2.1")}},
			svc("w", "", func(s *model.Service) { s.Type, s.ExternalIPs = model.ClusterIP, []netip.Addr{ip("192.0.2.2")} }), svc("x", "")},
			"x [192.0.2.3] IPAllocated: has 192.0.2.3\n"},
		"addresses of Pods' ranges are not given": {[]any{pool("a", "192.0.2.1-192.0.2.9"), &model.Node{Name: "n", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29")}},
			svc("w", "", note(AnnotationIPs, "192.0.2.3")), svc("x", "")},
			"w [] AddressNotInPool: 192.0.2.3 is in 192.0.2.0/29, where the cluster's Pods or ClusterIPs have their addresses\nx [192.0.2.8] IPAllocated: has 192.0.2.8\n"},
		"nor those of ClusterIPs": {[]any{pool("a", "192.0.2.1-192.0.2.9"), &model.ServiceCIDR{Name: "k", CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, svc("x", "")},
			"x [] AllocationFailed: no AddressPool has a free IPv4 address\n"},
		"endings 0 and 255 only on request": {[]any{pool("a", "192.0.2.255-192.0.3.2"), svc("x", ""), svc("y", "", note(AnnotationIPs, "192.0.3.0"))},
			"x [192.0.3.1] IPAllocated: has 192.0.3.1\ny [192.0.3.0] IPAllocated: has 192.0.3.0\n"},
		"the anycast address of routers only on request": {[]any{pool("a", "2001:db8::-2001:db8::ff"), svc("x", "", func(s *model.Service) { s.IPFamilies = []string{"IPv6"} })},
			"x [2001:db8::1] IPAllocated: has 2001:db8::1\n"},
		"a class of podway": {[]any{pool("a", "192.0.2.1"), svc("x", "", func(s *model.Service) { s.LoadBalancerClass = model.LoadBalancerClass })},
			"x [192.0.2.1] IPAllocated: has 192.0.2.1\n"},
		"a foreign class is left alone, and keeps what it has": {[]any{pool("a", "192.0.2.1-192.0.2.2"), svc("w", "192.0.2.1", func(s *model.Service) { s.LoadBalancerClass = "x/y" }), svc("x", "")},
			"x [192.0.2.2] IPAllocated: has 192.0.2.2\n"},
		"what others gave is left alone": {[]any{pool("a", "192.0.2.1"), svc("x", "34.1.2.3")}, ""},
		"unless the Service asks for podway's": {[]any{pool("a", "192.0.2.1"), svc("x", "34.1.2.3", note(AnnotationPool, "a"))},
			"x [192.0.2.1] IPAllocated: has 192.0.2.1\n"},
		"another type releases": {[]any{pool("a", "192.0.2.1"), svc("w", "192.0.2.1", func(s *model.Service) { s.Type = model.ClusterIP }), svc("x", "")},
			"w [] IPReleased: the Service is no longer of type LoadBalancer\nx [192.0.2.1] IPAllocated: has 192.0.2.1\n"},
		"one that goes keeps its address until it is gone": {[]any{pool("a", "192.0.2.1"), svc("w", "192.0.2.1", func(s *model.Service) { s.Deleting = true }), svc("x", "")},
			"x [] AllocationFailed: no AddressPool has a free IPv4 address\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, text(Allocate(snap(c.objs...)))); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whatever happens to Services and pools: nobody has an address of another, what was right stays, and a second look
// after the first was written changes nothing more than what the first set free.
func TestNoAddressIsGivenTwiceAndNoneMovesWithoutNeed(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		b := model.NewBuilder(nil)
		b.Put(pool("a", "192.0.2.1-192.0.2.6 2001:db8::1-2001:db8::4"))
		for range 300 {
			name := fmt.Sprint("s", rnd.IntN(12))
			old := b.Snapshot(epoch).Services.At(model.N("shop", name))
			n := svc(name, "")
			if old != nil {
				*n = *old
			}
			switch rnd.IntN(8) {
			case 0:
				b.Delete(n)
			case 1:
				n.Type = []model.ServiceType{model.ClusterIP, model.LoadBalancer}[rnd.IntN(2)]
				b.Put(n)
			case 2:
				n.Annotations = map[string]string{AnnotationIPs: fmt.Sprint("192.0.2.", 1+rnd.IntN(8))}
				b.Put(n)
			case 3:
				n.Annotations, n.IPFamilies = nil, []string{"IPv4", "IPv6"}[:1+rnd.IntN(2)]
				b.Put(n)
			case 4:
				b.Put(pool("b", fmt.Sprintf("198.51.100.1-198.51.100.%d", 1+rnd.IntN(4)), func(p *model.Pool) { p.AutoAssign = rnd.IntN(2) == 0 }))
			default:
				b.Put(n)
			}
			for range 8 {
				if moved := round(t, b); !moved {
					break
				}
			}
			if round(t, b) {
				t.Fatal("it does not come to rest")
			}
		}
	}
}

// round allocates, checks, and writes the result; it reports whether anything changed.
func round(t *testing.T, b *model.Builder) (moved bool) {
	t.Helper()
	s := b.Snapshot(epoch)
	by := map[netip.Addr]string{}
	for _, a := range Allocate(s) {
		var had []netip.Addr
		for _, l := range a.Service.LoadBalancerIPs {
			had = append(had, l.Addr)
		}
		for _, x := range a.Addrs {
			if by[x] != "" {
				t.Fatalf("%s is given to %s and %s", x, by[x], a.Service.Name)
			}
			by[x] = a.Service.Name.String()
			if !slices.Contains(a.Service.IPFamilies, family(x)) {
				t.Fatalf("%s for %v", x, a.Service.IPFamilies)
			}
		}
		if slices.Equal(had, a.Addrs) {
			continue
		}
		for _, x := range had {
			wants := a.Service.Annotations[AnnotationIPs]
			if inPool(s, x) && !slices.Contains(a.Addrs, x) && !a.Release && (wants == "" || wants == x.String()) && slices.Contains(a.Service.IPFamilies, family(x)) {
				t.Fatalf("%s lost %s without need: %s", a.Service.Name, x, a.Message)
			}
		}
		moved = true
		n := *a.Service
		n.LoadBalancerIPs = nil
		for _, x := range a.Addrs {
			n.LoadBalancerIPs = append(n.LoadBalancerIPs, model.LoadBalancerIP{Addr: x})
		}
		b.Put(&n)
	}
	return moved
}

func inPool(s *model.Snapshot, a netip.Addr) bool {
	for p := range s.Pools.Values() {
		if contains(p, a) {
			return true
		}
	}
	return false
}

func BenchmarkAllocate2000Services(b *testing.B) {
	objs := []any{pool("a", "10.0.0.0-10.0.255.255")}
	for i := range 2000 {
		objs = append(objs, svc(fmt.Sprint("s", i), fmt.Sprintf("10.0.%d.%d", i/200, 1+i%200)))
	}
	s := snap(append(objs, svc("new", ""))...)
	for b.Loop() {
		Allocate(s)
	}
}
