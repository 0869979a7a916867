package nft

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/model"
)

// Backend implements proxy.Backend.
type Backend struct {
	open   func() (knft.Kernel, error)
	kernel knft.Kernel // opened at first use

	applied *proxy.Plan // what the kernel has; nil = unknown: read it
	totals  []*elements // per family, of applied: counts only
	rooms   rooms
	gen     uint32 // the kernel's generation after the last write or comparison

	compared time.Time     // when Check last compared everything
	took     time.Duration // how long that took
}

// New returns the backend. open opens a door to the kernel of the node's namespace; it is called for the writer once and
// for each Read.
func New(open func() (knft.Kernel, error)) *Backend { return &Backend{open: open} }

// Name implements proxy.Backend.
func (b *Backend) Name() string { return "nftables" }

func (b *Backend) door() (knft.Kernel, error) {
	if b.kernel == nil {
		k, err := b.open()
		if err != nil {
			return nil, err
		}
		b.kernel = k
	}
	return b.kernel, nil
}

// Supported implements proxy.Backend: it makes and deletes a table with every kind of rule in one transaction, which
// leaves nothing behind whether it succeeds or not.
func (b *Backend) Supported(ctx context.Context) error {
	k, err := b.door()
	if err != nil {
		return err
	}
	for _, f := range families {
		t := probe(f)
		ops := append(knft.Create(t), knft.Diff(t, nil)...)
		if err := k.Apply(ctx, ops); err != nil {
			return err
		}
	}
	return nil
}

// probe is a table with one class of each kind, under another name.
func probe(f knft.Family) *knft.Table {
	e := newElements(f, 0)
	for _, c := range []class{{cluster: 2}, {external: true, local: true, cluster: 2, here: 1, affinity: 10, guarded: true}, {refuse: true}, {none: true}} {
		e.classes[c]++
	}
	e.ports = 1
	t := render(&proxy.Plan{}, f, e)
	t.Name = fmt.Sprintf("%s-probe-%d", tableName, time.Now().UnixNano())
	return t
}

// Apply implements proxy.Backend.
func (b *Backend) Apply(ctx context.Context, p *proxy.Plan) (proxy.Applied, error) {
	k, err := b.door()
	if err != nil {
		return proxy.Applied{}, err
	}
	before := b.applied
	b.applied = nil // until the kernel has said yes
	if before == nil || !sameNode(before, p) {
		return b.full(ctx, k, before, p)
	}
	return b.step(ctx, k, before, p)
}

// full compares everything with what the kernel has and changes what differs.
func (b *Backend) full(ctx context.Context, k knft.Kernel, before, p *proxy.Plan) (proxy.Applied, error) {
	gen, err := k.Generation(ctx)
	if err != nil {
		return proxy.Applied{}, err
	}
	have := &Ruleset{}
	if before != nil {
		have = Render(before)
		b.rooms.put(have)
	} else if have, err = read(ctx, k, p.Node); err != nil {
		return proxy.Applied{}, err
	}
	var ops []knft.Op
	totals := make([]*elements, len(families))
	b.rooms = roomsOf(have)
	for i, f := range families {
		e := collect(p, f, have.table(f) == nil)
		diff := knft.Diff(have.table(f), render(p, f, e))
		b.rooms.follow(f, diff)
		ops = append(ops, diff...)
		totals[i] = e.counts()
	}
	done, err := b.commit(ctx, k, ops, gen, p, totals, true)
	if err == nil || before != nil || errors.Is(err, errors.ErrUnsupported) {
		return done, err
	}
	anew := replace(have, p)
	b.rooms = rooms{}
	for _, f := range families {
		b.rooms.follow(f, anew)
	}
	if done, again := b.commit(ctx, k, anew, gen, p, totals, true); again == nil {
		return done, nil // somebody had changed the table so that it could not be mended in place
	}
	return done, err
}

// replace deletes the tables and makes them anew, in one transaction.
func replace(have *Ruleset, p *proxy.Plan) []knft.Op {
	var ops []knft.Op
	for _, t := range have.tables {
		ops = append(ops, knft.Op{Kind: knft.DelTable, Table: t})
	}
	for _, t := range Render(p).tables {
		ops = append(ops, knft.Create(t)...)
	}
	return ops
}

// Balances implements proxy.Balancer.
func (b *Backend) Balances() {}

// Can implements proxy.Limited.
func (b *Backend) Can(s *proxy.Settings) error {
	if s.NodePorts.Loopback {
		return fmt.Errorf("nft: node ports at 127.0.0.1 and ::1: %w: the kernel would have to route packets of the loopback network (route_localnet), which opens it to others; take localhost out of nodePortAddresses, or use another proxy mode", errors.ErrUnsupported)
	}
	return nil
}

// commit writes and remembers. gen is the kernel's generation before: if anybody wrote at the same time, the next Check
// compares everything.
func (b *Backend) commit(ctx context.Context, k knft.Kernel, ops []knft.Op, gen uint32, p *proxy.Plan, totals []*elements, full bool) (proxy.Applied, error) {
	if err := k.Apply(ctx, ops); err != nil {
		return proxy.Applied{}, err
	}
	if len(ops) > 0 {
		gen++
	}
	b.applied, b.totals, b.gen = p, totals, gen
	return proxy.Applied{Changed: count(ops), Full: full}, nil
}

func count(ops []knft.Op) int {
	n := 0
	for _, op := range ops {
		n += max(1, len(op.Elems)+len(op.Rules))
	}
	return n
}

func sameNode(a, b *proxy.Plan) bool { return a.SameNode(b) }

// step changes what differs between two plans of the same node.
func (b *Backend) step(ctx context.Context, k knft.Kernel, before, p *proxy.Plan) (proxy.Applied, error) {
	var ops []knft.Op
	totals := make([]*elements, len(families))
	for i, f := range families {
		was, now := newElements(f, 0), newElements(f, 0)
		model.Changed(before.Services, p.Services, func(n model.Name) {
			was.add(before.Services.At(n))
			now.add(p.Services.At(n))
		})
		d := delta{f: f, plan: p, total: b.totals[i], was: was, now: now}
		if wanted(before, f, d.total.ports) != wanted(p, f, d.ports()) || !d.partial() {
			return b.full(ctx, k, before, p)
		}
		if tight := d.crowded(b.rooms[f]); len(tight) > 0 {
			b.rooms.tighten(f, tight)
			return b.full(ctx, k, before, p)
		}
		if wanted(p, f, d.ports()) {
			ops = append(ops, d.ops()...)
		}
		totals[i] = d.counts()
	}
	for _, f := range families {
		b.rooms.follow(f, ops)
	}
	return b.commit(ctx, k, ops, b.gen, p, totals, false)
}

// costly is how long a comparison may take before it is rationed to a tenth of the time.
const costly = 50 * time.Millisecond

// Check implements proxy.Backend. The kernel's generation tells whether anybody wrote any table since; only then the
// tables are looked at: always whether they and their base chains are there, as they are not after a flush of the ruleset,
// and everything in them as often as its cost allows.
func (b *Backend) Check(ctx context.Context) (string, error) {
	if b.applied == nil {
		return "", nil
	}
	gen, err := b.kernel.Generation(ctx)
	if err != nil || gen == b.gen {
		return "", err
	}
	if drift, err := b.glance(ctx); drift != "" || err != nil {
		return drift, err
	}
	if b.took > costly && time.Since(b.compared) < 10*b.took {
		return "", nil
	}
	start := time.Now()
	have, err := read(ctx, b.kernel, b.applied.Node)
	if err != nil {
		return "", err
	}
	drift := difference(have, Render(b.applied))
	b.compared, b.took = time.Now(), time.Since(start)
	if drift != "" {
		b.applied = nil
		return drift, nil
	}
	b.gen = gen
	return "", nil
}

// glance compares the chains that do not depend on any Service; it costs the same however many there are.
func (b *Backend) glance(ctx context.Context) (string, error) {
	have, err := gather(ctx, b.applied.Node, b.kernel.Look)
	if err != nil {
		return "", err
	}
	for i, f := range families {
		if !wanted(b.applied, f, b.totals[i].ports) {
			continue
		}
		t, want := have.table(f), knft.NewTable(f, tableName)
		base(want, b.applied)
		if t != nil {
			part := knft.NewTable(f, tableName)
			for name := range want.Chains {
				if c := t.Chains[name]; c != nil {
					part.AddChain(c)
				}
			}
			t = part
		}
		if ops := knft.Diff(t, want); len(ops) > 0 {
			b.applied = nil
			return fmt.Sprintf("%s %s: %s", f, tableName, ops[0]), nil
		}
	}
	return "", nil
}

// difference says in words what would have to be done to make have into want.
func difference(have, want *Ruleset) string {
	var words []string
	for _, f := range families {
		for _, op := range knft.Diff(have.table(f), want.table(f)) {
			words = append(words, fmt.Sprintf("%s %s: %s", f, tableName, op))
		}
	}
	if len(words) > 5 {
		words = append(words[:5], fmt.Sprintf("and %d more", len(words)-5))
	}
	return strings.Join(words, "; ")
}

// Read implements proxy.Backend with a door of its own, so that it may run beside Apply.
func (b *Backend) Read(ctx context.Context, n proxy.Node) (proxy.Ruleset, error) {
	k, err := b.open()
	if err != nil {
		return nil, err
	}
	defer k.Close()
	r, err := read(ctx, k, n)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Eval implements proxy.Backend, also beside Apply: rules are read, elements are asked for one by one.
func (b *Backend) Eval(ctx context.Context, n proxy.Node, f flow.Flow) (flow.Verdict, error) {
	k, err := b.open()
	if err != nil {
		return flow.Verdict{}, err
	}
	defer k.Close()
	for try := 0; ; try++ {
		before, err := k.Generation(ctx)
		if err != nil {
			return flow.Verdict{}, err
		}
		r, err := gather(ctx, n, k.Look)
		if err != nil {
			return flow.Verdict{}, err
		}
		v := r.Eval(f)
		after, err := k.Generation(ctx)
		if before == after || err != nil || try == 9 { // else rules and elements may be of different times
			return v, err
		}
	}
}

func read(ctx context.Context, k knft.Kernel, n proxy.Node) (*Ruleset, error) {
	return gather(ctx, n, k.Read)
}

// gather collects the tables of all families with one of the kernel's ways to read.
func gather(ctx context.Context, n proxy.Node, how func(context.Context, knft.Family, string) (*knft.Table, error)) (*Ruleset, error) {
	tables, err := knft.Tables(ctx, families, tableName, how)
	if err != nil {
		return nil, err
	}
	r := &Ruleset{node: n}
	r.tables = tables
	return r, nil
}

// Remove implements proxy.Backend.
func (b *Backend) Remove(ctx context.Context) error {
	k, err := b.door()
	if err != nil {
		return err
	}
	b.applied = nil
	have, err := read(ctx, k, proxy.Node{})
	if err != nil {
		return err
	}
	var ops []knft.Op
	for _, t := range have.tables {
		ops = append(ops, knft.Op{Kind: knft.DelTable, Table: t})
	}
	return k.Apply(ctx, ops)
}
