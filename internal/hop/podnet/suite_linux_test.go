package podnet

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
)

func TestSuiteOnTheKernel(t *testing.T) {
	for _, o := range []Options{{}, {Overlay: OverlayAlways}} {
		t.Run("overlay "+string(o.Overlay), func(t *testing.T) {
			hoptest.Run(t, suite(o, func(t *testing.T) hoptest.Host { return newKernelHost(t, o) }, 40))
		})
	}
}

// kernelHost is node "a" as a network namespace: what machine describes, and one Pod.
type kernelHost struct {
	ns     *netns.NS
	opt    Options
	hop    *Hop
	links  *link.Kernel
	routes *route.Kernel
	refuse func() error
}

func newKernelHost(t *testing.T, o Options) *kernelHost {
	t.Helper()
	ns, err := netns.New()
	must(t, err)
	h := &kernelHost{ns: ns, opt: o}
	h.links, err = link.Open(ns)
	must(t, err)
	h.routes, err = route.Open(ns)
	must(t, err)
	t.Cleanup(func() { h.stop(); h.links.Close(); h.routes.Close(); ns.Close() })
	h.opt.Node, h.opt.ConfigPath, h.opt.StoreDir = "a", filepath.Join(t.TempDir(), "podnet.json"), t.TempDir()
	h.wire(t)
	return h
}

func (h *kernelHost) wire(t *testing.T) {
	t.Helper()
	veth := VethName("here", "eth0")
	must(t, h.links.AddPair(link.Pair{Name: "eth0", Peer: "wire0", MTU: 1500}))
	must(t, h.links.AddPair(link.Pair{Name: veth, Peer: "wire1", MTU: 1500}))
	for _, p := range prefixes("10.0.0.1/24", "fd00::1/64") {
		must(t, h.links.AddAddr("eth0", p))
	}
	for _, d := range []string{"lo", "eth0", "wire0", "wire1", veth} {
		must(t, h.links.SetUp(d, true))
	}
	must(t, h.links.AwaitRunning("eth0", 5*1e9))
	must(t, h.routes.AwaitLocal(netip.MustParseAddr("fd00::1"), 5*1e9))
	table := machine("10.0.0.1/24", "fd00::1/64").Routes
	slices.Reverse(table) // networks before what lies behind them
	for _, r := range table {
		if r.Dst != netip.MustParsePrefix("10.0.0.0/24") { // the kernel made that one
			r.Src = netip.Addr{}
			must(t, h.routes.Put(r))
		}
	}
	must(t, h.routes.Put(route.Route{Dst: single(netip.MustParseAddr("10.244.1.5")), Device: veth, Proto: RouteProtocol}))
}

func (h *kernelHost) stop() {
	if h.hop != nil {
		h.hop.Close()
	}
}

func (h *kernelHost) Start(t *testing.T) hop.Hop {
	h.stop()
	var err error
	h.hop, err = New(h.ns, h.opt)
	must(t, err)
	d := h.hop.doors
	h.hop.doors.links, h.hop.doors.routes = failingLinks{d.links, h}, failingRoutes{d.routes, h}
	h.hop.doors.neighbours, h.hop.doors.rules = failingNeighbours{d.neighbours, h}, failingRules{d.rules, h}
	h.hop.doors.sysctl = failingSysctl{d.sysctl, h}
	return h.hop
}

func (h *kernelHost) State(t *testing.T) string {
	have, err := h.hop.read(context.Background())
	must(t, err)
	slices.SortFunc(have.Pods, route.Route.Compare)
	if len(have.Pods) != 1 {
		t.Errorf("the Pod's route is gone, or there are others: %v", have.Pods)
	}
	return have.State.Text()
}

func (h *kernelHost) FailWrites(refuse func() error) { h.refuse = refuse }

func (h *kernelHost) may() error {
	if h.refuse == nil {
		return nil
	}
	return h.refuse()
}

// The doors of a kernelHost, whose writes fail when it says so.
type (
	failingLinks struct {
		link.Door
		h *kernelHost
	}
	failingRoutes struct {
		route.Door
		h *kernelHost
	}
	failingNeighbours struct {
		route.NeighbourDoor
		h *kernelHost
	}
	failingRules struct {
		nft.Kernel
		h *kernelHost
	}
	failingSysctl struct {
		sysctl.Door
		h *kernelHost
	}
)

func either(err error, write func() error) error {
	if err != nil {
		return err
	}
	return write()
}

func (d failingLinks) Put(l link.Link) error {
	return either(d.h.may(), func() error { return d.Door.Put(l) })
}

func (d failingLinks) Delete(name string) error {
	return either(d.h.may(), func() error { return d.Door.Delete(name) })
}

func (d failingRoutes) Put(r route.Route) error {
	return either(d.h.may(), func() error { return d.Door.Put(r) })
}

func (d failingRoutes) Delete(r route.Route) error {
	return either(d.h.may(), func() error { return d.Door.Delete(r) })
}

func (d failingNeighbours) PutNeighbour(n route.Neighbour) error {
	return either(d.h.may(), func() error { return d.NeighbourDoor.PutNeighbour(n) })
}

func (d failingNeighbours) DeleteNeighbour(n route.Neighbour) error {
	return either(d.h.may(), func() error { return d.NeighbourDoor.DeleteNeighbour(n) })
}

func (d failingRules) Apply(ctx context.Context, ops []nft.Op) error {
	return either(d.h.may(), func() error { return d.Kernel.Apply(ctx, ops) })
}

func (d failingSysctl) Set(key, value string) error {
	return either(d.h.may(), func() error { return d.Door.Set(key, value) })
}
