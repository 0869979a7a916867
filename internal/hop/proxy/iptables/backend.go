package iptables

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
)

// Backend implements proxy.Backend.
type Backend struct {
	open   func() (kipt.Door, error)
	others func() []kipt.Door // to tables of the host that other variants of the tools write; nil = none
	sysctl sysctl.Door        // nil leaves the settings alone

	mu   sync.Mutex
	door kipt.Door // opened at first use

	applied *proxy.Plan // what the host has; nil = unknown: read it
	totals  []counts    // per family, of applied
	stamp   kipt.Stamp  // of the tables after the last write or comparison

	counted counted
	found   []flow.Finding // since the last full apply

	compared time.Time     // when Check last compared everything
	took     time.Duration // how long that took
}

// New returns the backend. open opens the door to the tables of the node's namespace; it is called once, at first use.
func New(open func() (kipt.Door, error), s sysctl.Door) *Backend {
	return &Backend{open: open, sysctl: s, counted: newCounted()}
}

// Name implements proxy.Backend.
func (b *Backend) Name() string { return "iptables" }

func (b *Backend) host() (kipt.Door, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.door == nil {
		d, err := b.open()
		if err != nil {
			return nil, err
		}
		b.door = d
	}
	return b.door, nil
}

// Apply implements proxy.Backend.
func (b *Backend) Apply(ctx context.Context, p *proxy.Plan) (proxy.Applied, error) {
	d, err := b.host()
	if err != nil {
		return proxy.Applied{}, err
	}
	before, stamp := b.applied, b.stamp
	if now, err := d.Stamp(ctx); err != nil || now != stamp {
		stamp = "" // somebody else wrote: the next Check compares everything
	}
	b.applied, b.stamp = nil, "" // until everything is written: what a failure left is read
	if before != nil && before.SameNode(p) {
		if edits, totals, ok := b.partial(d, before, p); ok {
			return b.commit(ctx, d, edits, stamp, p, totals, false)
		}
	}
	return b.full(ctx, d, before, stamp, p)
}

// perFamily are edits by family, in the order of kipt.Families.
type perFamily [][]*edit

// partial is what differs between two plans of the same node. It reports false when more than the rules of the changed
// Services would have to be written.
func (b *Backend) partial(d kipt.Door, before, p *proxy.Plan) (perFamily, []counts, bool) {
	var were, are []*proxy.Service
	model.Changed(before.Services, p.Services, func(n model.Name) {
		were, are = append(were, before.Services.At(n)), append(are, p.Services.At(n))
	})
	edits, totals := make(perFamily, len(kipt.Families)), make([]counts, len(kipt.Families))
	for i, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		was, now := sheetOf(before, f, were), sheetOf(p, f, are)
		old := b.totals[i]
		totals[i] = old.after(was, now)
		if !old.sameBlocks(totals[i]) || wanted(before, f, old.ports) != wanted(p, f, totals[i].ports) {
			return nil, nil, false
		}
		if wanted(p, f, totals[i].ports) {
			edits[i] = step(was, now)
		}
	}
	return edits, totals, true
}

// full compares everything with what the host has and changes what differs.
func (b *Backend) full(ctx context.Context, d kipt.Door, before *proxy.Plan, stamp kipt.Stamp, p *proxy.Plan) (proxy.Applied, error) {
	have, err := &Ruleset{}, error(nil)
	if before != nil {
		have = Render(before)
	} else {
		if stamp, err = d.Stamp(ctx); err == nil {
			have, err = read(ctx, d, p.Node)
		}
		if err != nil {
			return proxy.Applied{}, err
		}
	}
	if !p.Settings.NodePorts.Loopback {
		if err := b.closeLoopback(have); err != nil {
			return proxy.Applied{}, err
		}
	}
	edits, totals := make(perFamily, len(kipt.Families)), make([]counts, len(kipt.Families))
	for i, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		s := collect(p, f)
		want := &Ruleset{tables: render(p, f, s)}
		totals[i] = s.counts(want.tables)
		for _, t := range tables {
			edits[i] = append(edits[i], difference(have.table(f, t), want.table(f, t)))
		}
	}
	done, err := b.commit(ctx, d, edits, stamp, p, totals, true)
	if err == nil && p.Settings.NodePorts.Loopback {
		err = b.openLoopback(p.Node.Name)
	}
	if err == nil && before == nil {
		err = b.leaveOthers(ctx)
	}
	return done, err
}

// commit writes and remembers. before is the host's stamp when it was as the edits assume, "" when that is not known.
func (b *Backend) commit(ctx context.Context, d kipt.Door, edits perFamily, before kipt.Stamp, p *proxy.Plan, totals []counts, full bool) (proxy.Applied, error) {
	done := proxy.Applied{Full: full}
	commits := 0
	for i, f := range kipt.Families {
		in := script(edits[i], d.Chunk())
		if len(in) == 0 {
			b.counted.wrote(f, nil, totals[i])
			continue
		}
		if err := d.Restore(ctx, f, in); err != nil {
			b.counted.failed(f, full)
			return proxy.Applied{}, err
		}
		b.counted.wrote(f, edits[i], totals[i])
		commits += bytes.Count(in, []byte("\nCOMMIT\n"))
		for _, e := range edits[i] {
			done.Changed += e.changes()
		}
	}
	b.stamp = stampAfter(ctx, d, before, commits)
	b.applied, b.totals = p, totals
	return done, nil
}

// stampAfter is the stamp after our own writes: "" when somebody else wrote at the same time, so that the next Check
// compares everything.
func stampAfter(ctx context.Context, d kipt.Door, before kipt.Stamp, commits int) kipt.Stamp {
	now, err := d.Stamp(ctx)
	if want := before.After(commits); err != nil || before == "" || want != "" && want != now {
		return ""
	}
	return now
}

// Read implements proxy.Backend.
func (b *Backend) Read(ctx context.Context, n proxy.Node) (proxy.Ruleset, error) {
	d, err := b.host()
	if err != nil {
		return nil, err
	}
	r, err := read(ctx, d, n)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// read returns all that is ours on the host.
func read(ctx context.Context, d kipt.Door, n proxy.Node) (*Ruleset, error) {
	r := &Ruleset{node: n}
	for _, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		for _, name := range tables {
			t, err := d.Read(ctx, f, name, owned)
			if err != nil {
				return nil, err
			}
			for chain, rules := range t.Chains {
				if isList(name, chain) {
					t.Chains[chain] = ordered(name, chain, rules)
				}
			}
			r.tables = append(r.tables, t)
		}
	}
	return r, nil
}

// Eval implements proxy.Backend: it reads the chains that the flow passes.
func (b *Backend) Eval(ctx context.Context, n proxy.Node, f flow.Flow) (flow.Verdict, error) {
	d, err := b.host()
	if err != nil {
		return flow.Verdict{}, err
	}
	fam := familyOf(f)
	if !d.Has(fam) {
		return flow.Verdict{Action: flow.Pass, Why: "no rule"}, nil
	}
	look, failed := d.Look(ctx, fam, owned), error(nil)
	known := map[list][]kipt.Rule{}
	v := eval(n, f, func(table, chain string) ([]kipt.Rule, error) {
		here := list{table, chain}
		if rules, ok := known[here]; ok {
			return rules, nil
		}
		body, _, err := look(table, chain)
		if failed = firstOf(failed, err); err != nil {
			return nil, err
		}
		known[here], err = parse(body)
		return known[here], err
	})
	return v, failed
}

// Remove implements proxy.Backend.
func (b *Backend) Remove(ctx context.Context) error {
	d, err := b.host()
	if err != nil {
		return err
	}
	b.applied, b.stamp = nil, ""
	if err := b.removeFrom(ctx, d); err != nil {
		return err
	}
	return b.leaveOthers(ctx)
}

// removeFrom deletes all that is ours in the tables of one variant.
func (b *Backend) removeFrom(ctx context.Context, d kipt.Door) error {
	have, err := read(ctx, d, proxy.Node{})
	if err != nil {
		return err
	}
	if err := b.closeLoopback(have); err != nil {
		return err
	}
	for _, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		var edits []*edit
		for _, name := range slices.Backward(tables) {
			edits = append(edits, difference(have.table(f, name), &kipt.Table{Family: f, Name: name}))
		}
		if in := script(edits, d.Chunk()); len(in) > 0 {
			if err := d.Restore(ctx, f, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveOthers deletes what an earlier process wrote with tools of another variant, before the host's other programs changed
// theirs. A kube-proxy's chains, which have the same names, stay.
func (b *Backend) leaveOthers(ctx context.Context) error {
	if b.others == nil {
		return nil
	}
	for _, d := range b.others() {
		mine, err := owns(ctx, d)
		if err == nil && mine {
			err = b.removeFrom(ctx, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
