package ipvs

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// Doors are the ways to the kernel of the node's network namespace. The first two are opened for the writer once and for
// each Read.
type Doors struct {
	NFT    func() (knft.Kernel, error)
	IPVS   func() (kipvs.Kernel, error)
	Sysctl sysctl.Door // nil leaves the settings alone
}

// Backend implements proxy.Backend.
type Backend struct {
	doors Doors
	log   *slog.Logger

	nft  knft.Kernel // opened at first use
	ipvs kipvs.Kernel

	applied  *proxy.Plan // what the kernel has; nil = unknown: read it
	total    *parts      // of applied: counts only
	gen      uint32      // nf_tables' generation after the last write or comparison
	leaving  leaving     // destinations that go when their connections have
	released time.Time   // when they were looked at
	warned   bool
	failures int // writes of tables that failed

	every    time.Duration // how often Check reads IPVS, which tells nobody of changes
	compared time.Time     // when it last did
	took     time.Duration // how long that took
}

// New returns the backend. log is told once that the mode is deprecated; nil tells nobody.
func New(d Doors, log *slog.Logger) *Backend {
	return &Backend{doors: d, log: log, leaving: leaving{}, every: 5 * time.Second}
}

// Name implements proxy.Backend.
func (b *Backend) Name() string { return "ipvs" }

// HoldsAddresses says that the node has all addresses of Services on a device of its own.
func (b *Backend) HoldsAddresses() bool { return true }

func (b *Backend) open() error {
	if b.ipvs == nil {
		k, err := b.doors.IPVS()
		if err != nil {
			return err
		}
		b.ipvs = k
	}
	if b.nft == nil {
		k, err := b.doors.NFT()
		if err != nil {
			return err
		}
		b.nft = k
	}
	if !b.warned && b.log != nil {
		b.log.Warn("kube-proxy deprecates mode ipvs and takes it out in Kubernetes 1.43; mode nftables does the same", "hop", "proxy")
	}
	b.warned = true
	return nil
}

// Supported implements proxy.Backend: it makes and deletes tables, a virtual server and the device, if that is not there.
func (b *Backend) Supported(ctx context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	for _, f := range families {
		t := newTable(f)
		t.Name = fmt.Sprintf("%s-probe-%d", tableName, time.Now().UnixNano())
		chains(t, &proxy.Plan{})
		if err := b.nft.Apply(ctx, append(knft.Create(t), knft.Diff(t, nil)...)); err != nil {
			return err
		}
	}
	have, err := b.ipvs.Read(ctx)
	if err != nil {
		return err
	}
	s := &kipvs.Server{Key: kipvs.Key{Addr: probeAddr, Proto: kipvs.TCP}, Scheduler: scheduler(&proxy.IPVSSettings{})}
	ops := []kipvs.Op{{Kind: kipvs.AddServer, Server: s}, {Kind: kipvs.DelServer, Server: s}}
	if !have.Device {
		ops = append(ops, kipvs.Op{Kind: kipvs.AddDevice}, kipvs.Op{Kind: kipvs.DelDevice})
	}
	return b.ipvs.Apply(ctx, ops)
}

// probeAddr is an address for documentation (RFC 5737): nobody's.
var probeAddr = netip.MustParseAddrPort("192.0.2.1:1")

// Apply implements proxy.Backend.
func (b *Backend) Apply(ctx context.Context, p *proxy.Plan) (proxy.Applied, error) {
	if err := b.open(); err != nil {
		return proxy.Applied{}, err
	}
	before := b.applied
	b.applied = nil // until the kernel has said yes to everything
	if before == nil || !before.SameNode(p) {
		return b.full(ctx, p)
	}
	return b.step(ctx, before, p)
}

// Check implements proxy.Backend. nf_tables' generation tells whether anybody wrote a table; IPVS tells nothing, so it is
// read now and then, the more rarely the longer it takes.
func (b *Backend) Check(ctx context.Context) (string, error) {
	if b.applied == nil {
		return "", nil
	}
	if err := b.release(ctx); err != nil {
		return "", err
	}
	gen, err := b.nft.Generation(ctx)
	if err != nil || gen == b.gen && b.every > 0 && time.Since(b.compared) < max(b.every, 20*b.took) {
		return "", err
	}
	start := time.Now()
	have, err := read(ctx, b.nft, b.ipvs, b.applied.Node)
	if err != nil {
		return "", err
	}
	b.compared, b.took = time.Now(), time.Since(start)
	if drift := b.difference(have, Render(b.applied)); drift != "" {
		b.applied = nil
		return drift, nil
	}
	b.gen = gen
	return "", nil
}

// Read implements proxy.Backend with doors of its own, so that it may run beside Apply.
func (b *Backend) Read(ctx context.Context, n proxy.Node) (proxy.Ruleset, error) {
	r, err := b.with(func(nft knft.Kernel, ipvs kipvs.Kernel) (*Ruleset, error) {
		r, err := read(ctx, nft, ipvs, n)
		if err == nil {
			r.ours(r.excluded())
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// with opens doors for the time of one call.
func (b *Backend) with(f func(knft.Kernel, kipvs.Kernel) (*Ruleset, error)) (*Ruleset, error) {
	ipvs, err := b.doors.IPVS()
	if err != nil {
		return nil, err
	}
	defer ipvs.Close()
	nft, err := b.doors.NFT()
	if err != nil {
		return nil, err
	}
	defer nft.Close()
	return f(nft, ipvs)
}

// Eval implements proxy.Backend, also beside Apply: rules and the device are read, elements and virtual servers are asked
// for one by one.
func (b *Backend) Eval(ctx context.Context, n proxy.Node, f flow.Flow) (flow.Verdict, error) {
	var v flow.Verdict
	_, err := b.with(func(nft knft.Kernel, ipvs kipvs.Kernel) (*Ruleset, error) {
		for try := 0; ; try++ {
			before, err := nft.Generation(ctx)
			if err != nil {
				return nil, err
			}
			r, err := gather(ctx, n, nft.Look)
			if err != nil {
				return nil, err
			}
			r.look = func(k kipvs.Key) (*kipvs.Server, error) { return ipvs.Look(ctx, k) }
			r.has = func(a netip.Addr) (bool, error) { return ipvs.Has(ctx, a) }
			if v, err = r.eval(f); err != nil {
				return nil, err
			}
			after, err := nft.Generation(ctx)
			if before == after || err != nil || try == 9 { // else rules and elements may be of different times
				return r, err
			}
		}
	})
	return v, err
}

// read reads everything.
func read(ctx context.Context, nft knft.Kernel, ipvs kipvs.Kernel, n proxy.Node) (*Ruleset, error) {
	r, err := gather(ctx, n, nft.Read)
	if err != nil {
		return nil, err
	}
	r.state, err = ipvs.Read(ctx)
	return r, err
}

// gather collects the tables of all families with one of the kernel's ways to read.
func gather(ctx context.Context, n proxy.Node, how func(context.Context, knft.Family, string) (*knft.Table, error)) (*Ruleset, error) {
	tables, err := knft.Tables(ctx, families, tableName, how)
	if err != nil {
		return nil, err
	}
	r := newRuleset(n)
	r.tables = tables
	return r, nil
}

// Remove implements proxy.Backend. The tables go last: without them the host's own ports would answer at the addresses of
// the device.
func (b *Backend) Remove(ctx context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	b.applied, b.leaving = nil, leaving{}
	have, err := read(ctx, b.nft, b.ipvs, proxy.Node{})
	if err != nil {
		return err
	}
	if len(have.tables) == 0 {
		return nil // what is on the device is another program's
	}
	have.ours(have.excluded())
	var ops []kipvs.Op
	for _, s := range have.state.Servers {
		ops = append(ops, kipvs.Op{Kind: kipvs.DelServer, Server: s})
	}
	if have.state.Device {
		ops = append(ops, kipvs.Op{Kind: kipvs.DelDevice})
	}
	if err := b.ipvs.Apply(ctx, ops); err != nil {
		return err
	}
	var rules []knft.Op
	for _, t := range have.tables {
		rules = append(rules, knft.Op{Kind: knft.DelTable, Table: t})
	}
	return b.nft.Apply(ctx, rules)
}
