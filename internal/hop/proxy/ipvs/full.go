package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// ours takes the virtual servers away that are not this package's, and returns all. Ours are those at an address that is
// on the device or noted in the tables for it, and those at the node's own addresses that the tables have noted. Those in
// excluded intervals are others'.
func (r *Ruleset) ours(excluded []string) (all map[kipvs.Key]*kipvs.Server) {
	noted, addrs := map[kipvs.Key]bool{}, maps.Clone(r.state.Addrs)
	for _, t := range r.tables {
		if s := t.Sets[setNode]; s != nil {
			for e := range s.Elems {
				if k, ok := keyOf(s, e); ok {
					noted[k] = true
				}
			}
		}
		if s := t.Sets[setIPs]; s != nil {
			for e := range s.Elems {
				addrs[knft.AddrOf(e)] = true
			}
		}
	}
	all = r.state.Servers
	r.state.Servers = maps.Clone(all)
	maps.DeleteFunc(r.state.Servers, func(k kipvs.Key, _ *kipvs.Server) bool {
		return !noted[k] && !addrs[k.Addr.Addr()] || within(excluded, addrKey(k.Addr.Addr()))
	})
	return all
}

// excluded are the intervals that the tables have noted.
func (r *Ruleset) excluded() (out []string) {
	for _, t := range r.tables {
		if s := t.Sets[setExcluded]; s != nil {
			out = slices.AppendSeq(out, maps.Keys(s.Elems))
		}
	}
	return out
}

// excludedBy are the intervals of the plan's settings.
func excludedBy(p *proxy.Plan, f knft.Family) (out []string) {
	for _, r := range ranges(&p.Settings.IPVS, f == knft.IPv4) {
		out = append(out, addrKey(r.Addr())+addrKey(last(r)))
	}
	return out
}

// within reports whether a key is in one of the intervals, as sets have them: the lowest key, then the highest.
func within(intervals []string, key string) bool {
	return slices.ContainsFunc(intervals, func(e string) bool {
		n := len(e) / 2
		return n == len(key) && e[:n] <= key && key <= e[n:]
	})
}

// full compares everything with what the kernel has and changes what differs.
func (b *Backend) full(ctx context.Context, p *proxy.Plan) (proxy.Applied, error) {
	if err := b.set(ctx, &p.Settings.IPVS); err != nil {
		return proxy.Applied{}, err
	}
	done, err := b.compare(ctx, p, false)
	if err == nil || errors.Is(err, errors.ErrUnsupported) || ctx.Err() != nil {
		return done, err
	}
	if done, again := b.compare(ctx, p, true); again == nil {
		return done, nil // somebody had changed the tables so that they could not be mended in place
	}
	return done, err
}

// compare reads what the kernel has and changes it into what is wanted; anew makes the tables anew.
func (b *Backend) compare(ctx context.Context, p *proxy.Plan, anew bool) (proxy.Applied, error) {
	start := time.Now()
	gen, err := b.nft.Generation(ctx)
	if err != nil {
		return proxy.Applied{}, err
	}
	have, err := read(ctx, b.nft, b.ipvs, p.Node)
	if err != nil {
		return proxy.Applied{}, err
	}
	b.compared, b.took = time.Now(), time.Since(start)
	x := collect(p)
	all := have.ours(slices.Concat(excludedBy(p, knft.IPv4), excludedBy(p, knft.IPv6)))
	b.leaving = leaving{}
	w := newWork()
	if !have.state.Device {
		w.first = append(w.first, kipvs.Op{Kind: kipvs.AddDevice})
	}
	for a := range x.addrs {
		w.address(a, have.state.Addrs[a], true)
	}
	for a := range have.state.Addrs {
		w.address(a, true, x.addrs[a] > 0)
	}
	for k, v := range x.servers {
		w.server(all[k], v, b.leaving)
	}
	for k, s := range have.state.Servers {
		if x.servers[k] == nil {
			w.server(s, nil, b.leaving)
		}
	}
	for _, f := range families {
		w.table(have.table(f), render(p, f, x), anew)
	}
	done, err := b.commit(ctx, w, gen)
	if err != nil {
		return done, err
	}
	b.applied, b.total = p, x.counts()
	done.Full = true
	return done, nil
}

// set makes the kernel's settings those that are needed. They are never set back: others may rely on them by then.
func (b *Backend) set(ctx context.Context, s *proxy.IPVSSettings) error {
	if err := b.ipvs.SetTimeouts(ctx, timeouts(s)); err != nil {
		return err
	}
	if b.doors.Sysctl == nil {
		return nil
	}
	want := settings
	if s.StrictARP {
		want = slices.Concat(settings, strictARP)
	}
	for _, s := range want {
		if err := b.doors.Sysctl.Set(s[0], s[1]); err != nil {
			return fmt.Errorf("ipvs: %s must be %s: %w", s[0], s[1], err)
		}
	}
	return nil
}

// work is what must be done, in the order in which it is safe. An address may be on the device only while the rules
// refuse what is not a Service's, and a frontend may be let through only while it has its virtual server.
type work struct {
	guard []knft.Op  // rules: addresses and virtual servers to come are noted
	first []kipvs.Op // addresses and virtual servers that come or change
	rules []knft.Op
	last  []kipvs.Op // virtual servers that go
	gone  []kipvs.Op // addresses that go
	tidy  []knft.Op  // rules: what has gone is noted no more
}

func newWork() *work { return &work{} }

func (w *work) address(a netip.Addr, have, want bool) {
	switch {
	case want && !have:
		w.first = append(w.first, kipvs.Op{Kind: kipvs.AddAddr, IP: a})
	case have && !want:
		w.gone = append(w.gone, kipvs.Op{Kind: kipvs.DelAddr, IP: a})
	}
}

// commit does the work and remembers. gen is nf_tables' generation before: if anybody wrote at the same time, the next
// Check compares everything.
func (b *Backend) commit(ctx context.Context, w *work, gen uint32) (proxy.Applied, error) {
	var done proxy.Applied
	rules := func(ops []knft.Op) error {
		if len(ops) == 0 {
			return nil
		}
		gen++
		for _, op := range ops {
			done.Changed += max(1, len(op.Elems)+len(op.Rules))
		}
		err := b.nft.Apply(ctx, ops)
		if err != nil {
			b.failures++
		}
		return err
	}
	servers := func(ops []kipvs.Op) error {
		done.Changed += len(ops)
		return b.ipvs.Apply(ctx, ops)
	}
	if err := rules(w.guard); err != nil {
		return done, err
	}
	if err := servers(w.first); err != nil {
		return done, err
	}
	if err := rules(w.rules); err != nil {
		return done, err
	}
	if err := servers(slices.Concat(w.last, w.gone)); err != nil {
		return done, err
	}
	if err := rules(w.tidy); err != nil {
		return done, err
	}
	b.gen = gen
	return done, nil
}

// table makes one family's table into another in three steps; both may hold only what a change touches. With anew, or
// when it is somebody else's by its comment, it is deleted and made anew.
func (w *work) table(have, want *knft.Table, anew bool) {
	if have == nil && want == nil {
		return
	}
	guarded, open := have, have
	switch {
	case have == nil:
		guarded, open = closed(want), want
		w.guard = append(w.guard, knft.Create(guarded)...)
	case want == nil:
	case anew || have.Comment != want.Comment:
		guarded, open = noting(closed(want), have), noting(want, have)
		w.guard = append(w.guard, knft.Op{Kind: knft.DelTable, Table: have})
		w.guard = append(w.guard, knft.Create(guarded)...)
	default:
		guarded, open = noting(have, want), noting(want, have)
		w.guard = append(w.guard, knft.Diff(have, guarded)...)
	}
	w.rules = append(w.rules, knft.Diff(guarded, open)...)
	w.tidy = append(w.tidy, knft.Diff(open, want)...)
}

// closed is a table that refuses every frontend at an address of the device.
func closed(t *knft.Table) *knft.Table {
	out := *t
	out.Sets = maps.Clone(t.Sets)
	for _, name := range []string{setFrontends, mapInside} {
		s := *t.Sets[name]
		s.Elems = map[string]string{}
		out.Sets[name] = &s
	}
	return &out
}

// noting is table t with the notes of another beside its own: addresses on the device and virtual servers elsewhere.
func noting(t, other *knft.Table) *knft.Table {
	out := *t
	out.Sets = maps.Clone(t.Sets)
	for _, name := range []string{setIPs, setNode} {
		mine, theirs := t.Sets[name], other.Sets[name]
		if mine == nil || theirs == nil || !mine.SameShape(theirs) {
			continue
		}
		s := *mine
		s.Elems = maps.Clone(mine.Elems)
		maps.Copy(s.Elems, theirs.Elems)
		out.Sets[name] = &s
	}
	return &out
}

// difference says in words what would have to be done to make have into want.
func (b *Backend) difference(have, want *Ruleset) string {
	var words []string
	w := newWork()
	for _, f := range families {
		for _, op := range knft.Diff(have.table(f), want.table(f)) {
			words = append(words, fmt.Sprintf("%s %s: %s", f, tableName, op))
		}
	}
	if !have.state.Device {
		w.first = append(w.first, kipvs.Op{Kind: kipvs.AddDevice})
	}
	for a := range want.state.Addrs {
		w.address(a, have.state.Addrs[a], true)
	}
	for a := range have.state.Addrs {
		w.address(a, true, want.state.Addrs[a])
	}
	all := have.ours(want.excluded())
	for k, s := range want.state.Servers {
		w.server(all[k], &virtual{Server: *s, serving: b.leaving.of(k)}, leaving{})
	}
	for k, s := range have.state.Servers {
		if want.state.Servers[k] == nil {
			w.server(s, nil, leaving{})
		}
	}
	for _, op := range slices.Concat(w.first, w.last, w.gone) {
		if op.Kind == kipvs.DelDest && b.leaving[op.Server.Key][op.To] {
			continue // its last connection has ended: release is about to delete it
		}
		words = append(words, "ipvs: "+op.String())
	}
	slices.Sort(words)
	if len(words) > 5 {
		words = append(words[:5], fmt.Sprintf("and %d more", len(words)-5))
	}
	return strings.Join(words, "; ")
}
