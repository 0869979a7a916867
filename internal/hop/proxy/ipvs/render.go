package ipvs

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/proxy"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// Render implements proxy.Backend.
func (b *Backend) Render(p *proxy.Plan) proxy.Ruleset { return Render(p) }

// Render returns what a plan wants: tables, device and virtual servers.
func Render(p *proxy.Plan) *Ruleset {
	x := collect(p)
	r := newRuleset(p.Node)
	for _, f := range families {
		if t := render(p, f, x); t != nil {
			r.tables = append(r.tables, t)
		}
	}
	r.state.Device = true
	for a := range x.addrs {
		r.state.Addrs[a] = true
	}
	for k, v := range x.servers {
		r.state.Servers[k] = &v.Server
	}
	return r
}

// wanted reports whether a family has a table at all.
func wanted(p *proxy.Plan, f knft.Family, ports int) bool {
	if f == knft.IPv4 || ports > 0 || len(p.LocalPods(false).In) > 0 {
		return true
	}
	return slices.ContainsFunc(p.Node.Addrs, netip.Addr.Is6)
}

// render makes one family's table, or nil when it has none.
func render(p *proxy.Plan, f knft.Family, x *parts) *knft.Table {
	fam := familyOf(f == knft.IPv4)
	if !wanted(p, f, x.ports[fam]) {
		return nil
	}
	t := newTable(f)
	chains(t, p)
	for name, elems := range x.sets[fam] {
		t.Sets[name].Elems = elems
	}
	for _, e := range excludedBy(p, f) {
		t.Sets[setExcluded].Elems[e] = ""
	}
	for a := range x.addrs {
		if a.Is4() == (f == knft.IPv4) {
			t.Sets[setIPs].Elems[addrKey(a)] = ""
		}
	}
	for a := range x.hairpin {
		if a.Is4() == (f == knft.IPv4) {
			t.Sets[setLoopback].Elems[pair(a)] = ""
		}
	}
	return t
}

// newTable is a table with all sets, empty, and no chain.
func newTable(f knft.Family) *knft.Table {
	t := knft.NewTable(f, tableName)
	t.Comment = comment
	addr := knft.AddrType(f)
	front := []knft.Type{addr, knft.Proto, knft.Service}
	t.AddSet(
		&knft.Set{Name: setIPs, Key: []knft.Type{addr}},
		&knft.Set{Name: setExcluded, Key: []knft.Type{addr}, Interval: true},
		&knft.Set{Name: setLoopback, Key: []knft.Type{addr, addr}},
		&knft.Set{Name: setSources, Key: append(slices.Clone(front), addr), Interval: true},
		&knft.Set{Name: mapInside, Key: front, Data: []knft.Type{addr, knft.Service}},
	)
	for _, name := range slices.Concat([]string{setClusterIP, setGuarded, setFrontends, setNoEndpoint, setNoneHere, setNode}, externalSets(false), externalSets(true)) {
		t.AddSet(&knft.Set{Name: name, Key: front})
	}
	for _, s := range t.Sets {
		s.Elems = map[string]string{}
	}
	return t
}

func addrKey(a netip.Addr) string { return string(a.AsSlice()) }

// pair is the key of an endpoint that is sent its own request.
func pair(a netip.Addr) string { return strings.Repeat(addrKey(a), 2) }

// keyOf reads a frontend's key back.
func keyOf(s *knft.Set, key string) (kipvs.Key, bool) {
	fields := knft.Fields(s.Key, key)
	if len(fields) != 3 {
		return kipvs.Key{}, false
	}
	return kipvs.Key{Addr: netip.AddrPortFrom(knft.AddrOf(fields[0]), knft.PortOf(fields[2])), Proto: fields[1][0]}, true
}
