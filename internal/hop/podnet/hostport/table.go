// Package hostport leads ports of the node to its own Pods (a container's hostPort): nftables tables podway-hostport, of
// which every element follows from the reservations of package ipam. Whoever changes the reservations calls Sync.
package hostport

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/nft"
)

// Table is the name of the tables, one for each family.
const Table = "podway-hostport"

// The order of the chains: Services first, so that a NodePort is never taken away by a hostPort; and before masquerading.
const (
	priorityDst = nft.PriorityDstNAT + 5
	prioritySrc = nft.PrioritySrcNAT - 5
)

// loopback as a source is left out: an answer to 127.0.0.1 would have to leave the Pod. As a destination it is reached by the
// node's own processes that bind another address; the answer's source is put back when it is delivered, after routing.
var loopback = map[nft.Family]netip.Prefix{nft.IPv4: netip.MustParsePrefix("127.0.0.0/8"), nft.IPv6: netip.MustParsePrefix("::1/128")}

var protocols = map[string]uint8{"tcp": nft.TCP, "udp": nft.UDP, "sctp": nft.SCTP}

// render makes the table of one family; nil when no Pod has a hostPort there.
func render(f nft.Family, all []ipam.Reservation) *nft.Table {
	anywhere, addressed, hairpin := map[string]string{}, map[string]string{}, map[string]string{}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b ipam.Reservation) int { return a.Since.Compare(b.Since) })
	for _, r := range all { // the newest last: it takes over from one that ends
		i := slices.IndexFunc(r.Addrs, func(a netip.Addr) bool { return a.Is4() == (f == nft.IPv4) })
		if i < 0 {
			continue
		}
		pod := r.Addrs[i]
		for _, p := range r.Ports {
			proto, ok := protocols[p.Proto]
			if !ok || p.HostPort == 0 || p.HostIP.IsValid() && p.HostIP.Is4() != pod.Is4() {
				continue
			}
			target := nft.Key(nil).Addr(pod).Port(p.Port).String()
			if p.HostIP.IsValid() && !p.HostIP.IsUnspecified() {
				addressed[nft.Key(nil).Addr(p.HostIP).Proto(proto).Port(p.HostPort).String()] = target
			} else {
				anywhere[nft.Key(nil).Proto(proto).Port(p.HostPort).String()] = target
			}
			hairpin[nft.Key(nil).Addr(pod).Addr(pod).String()] = ""
		}
	}
	if len(hairpin) == 0 {
		return nil
	}
	return table(f, anywhere, addressed, hairpin)
}

func table(f nft.Family, anywhere, addressed, hairpin map[string]string) *nft.Table {
	addr, n := nft.AddrType(f), nft.Reg(1) // n: registers of an address
	if f == nft.IPv6 {
		n = 4
	}
	target := []nft.Type{addr, nft.Service}
	t := nft.NewTable(f, Table)
	t.Comment = "podway: hostPorts of this node's Pods"
	t.AddSet(
		&nft.Set{Name: "anywhere", Key: []nft.Type{nft.Proto, nft.Service}, Data: target, Elems: anywhere},
		&nft.Set{Name: "addressed", Key: []nft.Type{addr, nft.Proto, nft.Service}, Data: target, Elems: addressed},
		&nft.Set{Name: "hairpin", Key: []nft.Type{addr, addr}, Elems: hairpin},
	)
	dnat := nft.NAT{Family: f, AddrReg: 8, HasPort: true, PortReg: 8 + n}
	t.AddChain(&nft.Chain{Name: "ports", Rules: []nft.Rule{
		nft.R(nft.DstAddr(f, 0), nft.L4Proto(n), nft.DstPort(n+1), nft.MapTo("addressed", 0, 8), dnat),
		nft.R(nft.L4Proto(0), nft.DstPort(1), nft.MapTo("anywhere", 0, 8), dnat),
	}})
	for h, own := range map[nft.Hook][]nft.Expr{nft.Prerouting: nft.DstIn(loopback[f]), nft.Output: nft.SrcIn(loopback[f])} {
		t.AddChain(&nft.Chain{Name: h.String(), Base: &nft.Base{Type: "nat", Hook: h, Priority: priorityDst}, Rules: []nft.Rule{
			nft.R(own, nft.Verdict{Kind: nft.Return}),
			nft.R(nft.ToLocal(), nft.To("ports")),
		}})
	}
	return t.AddChain(&nft.Chain{
		Name: "postrouting", Base: &nft.Base{Type: "nat", Hook: nft.Postrouting, Priority: prioritySrc},
		Rules: []nft.Rule{nft.R(nft.SrcAddr(f, 0), nft.DstAddr(f, n), nft.InSet("hairpin", 0), nft.Masquerade{FullyRandom: true})},
	})
}

// udp returns where each UDP port of a table leads.
func udp(t *nft.Table) map[netip.AddrPort]netip.AddrPort {
	out := map[netip.AddrPort]netip.AddrPort{}
	if t == nil {
		return out
	}
	for _, name := range []string{"anywhere", "addressed"} {
		s := t.Sets[name]
		if s == nil {
			continue
		}
		for k, v := range s.Elems {
			key, target := nft.Fields(s.Key, k), nft.Fields(s.Data, v)
			if len(target) != 2 || len(key) < 2 || key[len(key)-2] != string([]byte{nft.UDP}) {
				continue
			}
			host := netip.IPv6Unspecified()
			if t.Family == nft.IPv4 {
				host = netip.IPv4Unspecified()
			}
			if len(key) == 3 {
				host = nft.AddrOf(key[0])
			}
			out[netip.AddrPortFrom(host, nft.PortOf(key[len(key)-1]))] = netip.AddrPortFrom(nft.AddrOf(target[0]), nft.PortOf(target[1]))
		}
	}
	return out
}

// changed returns the UDP ports that lead elsewhere than before, in order.
func changed(have, want *nft.Table) []netip.AddrPort {
	h, w := udp(have), udp(want)
	var out []netip.AddrPort
	for k := range h {
		if w[k] != h[k] {
			out = append(out, k)
		}
	}
	for k := range w {
		if _, ok := h[k]; !ok {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b netip.AddrPort) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Port(), b.Port()))
	})
	return out
}
