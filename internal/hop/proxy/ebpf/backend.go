package ebpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/bpf"
	"github.com/podway/podway/internal/model"
)

// Host is what the backend needs of the node.
type Host struct {
	// Open opens a door to the programs; it is called for the writer once and for each Read.
	Open func() (bpf.Kernel, error)
	// Packets is the backend for all that sockets do not see: clients outside and all that is refused or dropped.
	Packets proxy.Backend
	// Netns is the cookie of the node's own network namespace.
	Netns func() (uint64, error)
	// Close ends UDP sockets, told by network namespace and socket cookie, and returns how many there were; nil leaves them
	// alone.
	Close func(ctx context.Context, sockets map[uint64][]uint64) (int, error)
}

// Backend implements proxy.Backend.
type Backend struct {
	host   Host
	kernel bpf.Kernel // opened at first use

	applied  *proxy.Plan   // what the kernel has; nil = unknown: read it
	compared time.Time     // when Check last compared the maps
	took     time.Duration // how long that took
}

// New returns the backend.
func New(h Host) *Backend { return &Backend{host: h} }

// Name implements proxy.Backend.
func (b *Backend) Name() string { return "ebpf" }

func (b *Backend) door() (bpf.Kernel, error) {
	if b.kernel == nil {
		k, err := b.host.Open()
		if err != nil {
			return nil, err
		}
		b.kernel = k
	}
	return b.kernel, nil
}

// Render implements proxy.Backend.
func (b *Backend) Render(p *proxy.Plan) proxy.Ruleset { return Render(p, b.host.Packets.Render(p)) }

// Supported implements proxy.Backend: it tries all that is not there already, and leaves nothing behind.
func (b *Backend) Supported(ctx context.Context) error {
	if err := b.host.Packets.Supported(ctx); err != nil {
		return err
	}
	k, err := b.host.Open()
	if err != nil {
		return err
	}
	defer k.Close()
	if t, ok := k.(interface{ Try(context.Context) error }); ok {
		return t.Try(ctx)
	}
	return nil
}

// Apply implements proxy.Backend: the packets' rules first, for they serve whom no program does yet.
func (b *Backend) Apply(ctx context.Context, p *proxy.Plan) (proxy.Applied, error) {
	k, err := b.door()
	if err != nil {
		return proxy.Applied{}, err
	}
	done, err := b.host.Packets.Apply(ctx, p)
	if err != nil {
		return proxy.Applied{}, err
	}
	before := b.applied
	b.applied = nil // until the kernel has said yes
	var n int
	if before != nil && before.SameNode(p) {
		n, err = b.step(ctx, k, before, p)
	} else {
		done.Full = true
		n, err = b.full(ctx, k, p)
	}
	if err != nil {
		return proxy.Applied{}, err
	}
	if err := b.closeStale(ctx, k, before, p); err != nil {
		return proxy.Applied{}, err
	}
	b.applied = p
	done.Changed += n
	return done, nil
}

// full compares everything with what the kernel has and changes what differs.
func (b *Backend) full(ctx context.Context, k bpf.Kernel, p *proxy.Plan) (int, error) {
	want := collect(p).maps
	if err := k.Prepare(ctx, sizes(want)); err != nil {
		return 0, rights(err)
	}
	have, err := dump(ctx, k)
	if err != nil {
		return 0, err
	}
	ops := difference(have, want)
	node, err := b.node(ctx, k)
	if err != nil {
		return 0, err
	}
	if err := k.Apply(ctx, append(node, ops...)); err != nil {
		return 0, err
	}
	n, err := k.Attach(ctx)
	return count(ops) + n, err
}

// rights says where the rights of this mode are kept, which a DaemonSet of another mode does not have.
func rights(err error) error {
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; in a DaemonSet this mode needs the patch deploy/modes/ebpf", err)
	}
	return err
}

// node is what tells programs the node's own namespace from others, if it is not there yet.
func (b *Backend) node(ctx context.Context, k bpf.Kernel) ([]bpf.Op, error) {
	cookie, err := b.host.Netns()
	if err != nil {
		return nil, err
	}
	key, value := string(make([]byte, 4)), string(binary.NativeEndian.AppendUint64(nil, cookie))
	have, _, err := k.Get(ctx, nodeMap, key)
	if err != nil || have == value {
		return nil, err
	}
	return []bpf.Op{{Map: nodeMap, Puts: []bpf.Entry{{Key: key, Value: value}}}}, nil
}

// step changes what differs between two plans of the same node.
func (b *Backend) step(ctx context.Context, k bpf.Kernel, before, p *proxy.Plan) (int, error) {
	was, now := newElements(before, 0), newElements(p, 0)
	model.Changed(before.Services, p.Services, func(n model.Name) {
		was.add(before.Services.At(n))
		now.add(p.Services.At(n))
	})
	ops := difference(was.maps, now.maps)
	if len(ops) == 0 {
		return 0, nil
	}
	return count(ops), k.Apply(ctx, ops)
}

func dump(ctx context.Context, k bpf.Maps) (map[string]map[string]string, error) {
	out := make(map[string]map[string]string, len(planned))
	for _, name := range planned {
		m, err := k.Dump(ctx, name)
		if err != nil {
			return nil, err
		}
		out[name] = m
	}
	return out, nil
}

// rarely is how long the maps are left alone between two comparisons: nothing tells that somebody wrote to them.
const rarely = 30 * time.Second

// Check implements proxy.Backend. Whether all programs run is asked each time; the maps are compared now and then.
func (b *Backend) Check(ctx context.Context) (string, error) {
	drift, err := b.host.Packets.Check(ctx)
	if err != nil || b.applied == nil {
		return drift, err
	}
	have := &Ruleset{}
	want := &Ruleset{attached: programs}
	if have.attached, err = b.kernel.Attached(ctx); err != nil {
		return "", err
	}
	if since := time.Since(b.compared); since >= rarely && since >= 10*b.took {
		start := time.Now()
		if have.maps, err = dump(ctx, b.kernel); err != nil {
			return "", err
		}
		want.maps = collect(b.applied).maps
		b.compared, b.took = time.Now(), time.Since(start)
	}
	words := slices.DeleteFunc([]string{drift, have.stray(want)}, func(s string) bool { return s == "" })
	if len(words) > 0 {
		b.forget()
	}
	return strings.Join(words, "; "), nil
}

// forget makes the next Apply look at everything anew, pins included.
func (b *Backend) forget() {
	b.applied, b.compared = nil, time.Time{}
	if b.kernel != nil {
		_ = b.kernel.Close() // nothing is lost: what counts is pinned
		b.kernel = nil
	}
}

// Read implements proxy.Backend with a door of its own, so that it may run beside Apply.
func (b *Backend) Read(ctx context.Context, n proxy.Node) (proxy.Ruleset, error) {
	k, err := b.host.Open()
	if err != nil {
		return nil, err
	}
	defer k.Close()
	r := &Ruleset{node: n}
	if r.attached, err = k.Attached(ctx); err != nil {
		return nil, err
	}
	if r.maps, err = dump(ctx, k); err != nil {
		return nil, err
	}
	if r.packets, err = b.host.Packets.Read(ctx, n); err != nil {
		return nil, err
	}
	return r, nil
}

// Eval implements proxy.Backend, also beside Apply: elements are asked for one by one.
func (b *Backend) Eval(ctx context.Context, n proxy.Node, f flow.Flow) (flow.Verdict, error) {
	k, err := b.host.Open()
	if err != nil {
		return flow.Verdict{}, err
	}
	defer k.Close()
	attached, err := k.Attached(ctx)
	if err != nil {
		return flow.Verdict{}, err
	}
	get := func(m, key string) (string, bool, error) { return k.Get(ctx, m, key) }
	if v, done, err := eval(n, attached, f, get); done || err != nil {
		return v, err
	}
	return b.host.Packets.Eval(ctx, n, f)
}

// Remove implements proxy.Backend: programs first, so that packets' rules serve until the end.
func (b *Backend) Remove(ctx context.Context) error {
	k, err := b.door()
	if err != nil {
		return err
	}
	b.applied = nil
	err = errors.Join(k.Remove(ctx), b.host.Packets.Remove(ctx))
	b.forget()
	if err != nil {
		return fmt.Errorf("ebpf: remove: %w", err)
	}
	return nil
}
