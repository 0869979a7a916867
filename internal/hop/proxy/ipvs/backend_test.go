package ipvs

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
)

var (
	cart    = kipvs.Key{Addr: netip.MustParseAddrPort("10.96.0.7:80"), Proto: kipvs.TCP}
	here    = netip.MustParseAddrPort("10.244.1.5:8080")
	there   = netip.MustParseAddrPort("10.244.2.6:8080")
	noNode  = netip.MustParseAddrPort("10.1.2.3:80")
	planner = func() *proxy.Planner { return proxytest.Default().Planner() }
)

// plans are the plans of snapshots in which Service cart has these endpoints, one after the other.
func plans(eps ...[]string) (out []*proxy.Plan) {
	c, p := hoptest.NewCluster().Put(hoptest.Service("cart", 7)), planner()
	var have *model.Snapshot
	for _, list := range eps {
		var ready []model.Endpoint
		for _, e := range list {
			ready = append(ready, hoptest.Ready(e))
		}
		next := c.Put(hoptest.Slice("cart", ready...)).Snapshot()
		plan, _ := p.Update(next, model.Diff(have, next))
		have, out = next, append(out, plan)
	}
	return out
}

func newFake() (*host, *kipvs.Fake, *Backend) {
	h := fakeHost(proxytest.Default())
	b := h.backend()
	b.every = 0
	return h, h.ipvs.(*kipvs.Fake), b
}

func weights(t *testing.T, f *kipvs.Fake) map[netip.AddrPort]uint32 {
	t.Helper()
	s, err := f.Look(t.Context(), cart)
	if err != nil || s == nil {
		t.Fatalf("no virtual server, %v", err)
	}
	out := map[netip.AddrPort]uint32{}
	for a, d := range s.Dests {
		out[a] = d.Weight
	}
	return out
}

func TestAnEndpointThatGoesKeepsItsConnectionsUntilTheyEnd(t *testing.T) {
	_, fake, b := newFake()
	ps := plans([]string{"10.244.1.5", "10.244.2.6"}, []string{"10.244.2.6"})
	apply(t, b, ps[0])
	fake.Connect(cart, here, 1, 2)
	apply(t, b, ps[1])
	if w := weights(t, fake); len(w) != 2 || w[here] != 0 || w[there] != 1 {
		t.Fatalf("with connections: %v, want weight 0", w)
	}
	if drift, err := b.Check(t.Context()); drift != "" || err != nil {
		t.Errorf("an endpoint that leaves counts as drift: %q, %v", drift, err)
	}
	fake.Connect(cart, here, 0, 0)
	b.released = b.released.Add(-2 * releasePause)
	if drift, err := b.Check(t.Context()); drift != "" || err != nil {
		t.Errorf("its release counts as drift: %q, %v", drift, err)
	}
	if w := weights(t, fake); len(w) != 1 {
		t.Errorf("after its last connection: %v, want it gone", w)
	}
}

func TestAnEndpointThatComesBackTakesConnectionsAgain(t *testing.T) {
	_, fake, b := newFake()
	ps := plans([]string{"10.244.1.5", "10.244.2.6"}, []string{"10.244.2.6"}, []string{"10.244.1.5", "10.244.2.6"})
	apply(t, b, ps[0])
	fake.Connect(cart, here, 1, 0)
	apply(t, b, ps[1])
	apply(t, b, ps[2])
	if w := weights(t, fake); w[here] != 1 || len(b.leaving) != 0 {
		t.Errorf("%v, leaving %v", w, b.leaving)
	}
}

// kubernetes issues 92019 and 108319: after a restart an endpoint stayed at weight 0.
func TestARestartPutsWeightsRight(t *testing.T) {
	h, fake, b := newFake()
	ps := plans([]string{"10.244.1.5", "10.244.2.6"})
	apply(t, b, ps[0])
	s, _ := fake.Look(t.Context(), cart)
	if err := fake.Apply(t.Context(), []kipvs.Op{{Kind: kipvs.SetDest, Server: s, To: here, Weight: 0}}); err != nil {
		t.Fatal(err)
	}
	apply(t, h.backend(), ps[0])
	if w := weights(t, fake); w[here] != 1 || w[there] != 1 {
		t.Errorf("after a restart: %v", w)
	}
}

func TestDriftOfVirtualServersIsSaidAndRepaired(t *testing.T) {
	_, fake, b := newFake()
	p := plans([]string{"10.244.1.5"})[0]
	apply(t, b, p)
	s, _ := fake.Look(t.Context(), cart)
	for _, c := range []struct {
		op   kipvs.Op
		want string
	}{
		{kipvs.Op{Kind: kipvs.DelServer, Server: s}, "ipvs: add server tcp 10.96.0.7:80"},
		{kipvs.Op{Kind: kipvs.SetDest, Server: s, To: here, Weight: 0}, "ipvs: change destination"},
		{kipvs.Op{Kind: kipvs.DelAddr, IP: cart.Addr.Addr()}, "ipvs: add address 10.96.0.7"},
		{kipvs.Op{Kind: kipvs.DelDevice}, "ipvs: add device"},
	} {
		if err := fake.Apply(t.Context(), []kipvs.Op{c.op}); err != nil {
			t.Fatal(err)
		}
		if drift, err := b.Check(t.Context()); !strings.Contains(drift, c.want) || err != nil {
			t.Errorf("%s: drift %q, %v; want %q", c.op, drift, err, c.want)
		}
		apply(t, b, p)
		if drift, err := b.Check(t.Context()); drift != "" || err != nil {
			t.Errorf("%s: after the repair: %q, %v", c.op, drift, err)
		}
	}
}

func TestVirtualServersOfOthersStay(t *testing.T) {
	h, fake, b := newFake()
	foreign := &kipvs.Server{Key: kipvs.Key{Addr: noNode, Proto: kipvs.TCP}, Scheduler: "wlc"}
	if err := fake.Apply(t.Context(), []kipvs.Op{{Kind: kipvs.AddServer, Server: foreign}}); err != nil {
		t.Fatal(err)
	}
	apply(t, b, plans([]string{"10.244.1.5"})[0])
	if err := h.backend().Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, _ := fake.Read(t.Context())
	if len(left.Servers) != 1 || left.Servers[foreign.Key] == nil || left.Device {
		t.Errorf("left: %s", left.Text(Device))
	}
}

func TestAChangeOfOneServiceWritesNothingElse(t *testing.T) {
	_, _, b := newFake()
	ps := plans([]string{"10.244.1.5"}, []string{"10.244.2.6"})
	apply(t, b, ps[0])
	done, err := b.Apply(t.Context(), ps[1])
	// One destination added, one deleted, one hairpin address deleted.
	if err != nil || done.Full || done.Changed != 3 {
		t.Errorf("%+v, %v; want 3 changes, not full", done, err)
	}
}

func TestSettingsOfTheKernelAreSetOrSaid(t *testing.T) {
	h, _, _ := newFake()
	door := &sysctl.Fake{Values: map[string]string{}}
	for _, s := range append(settings, strictARP...) {
		door.Values[s[0]] = "0"
	}
	doors := h.backend().doors
	doors.Sysctl = door
	p := plans([]string{"10.244.1.5"})[0]
	apply(t, New(doors, nil), p)
	if door.Values["net/ipv4/vs/conntrack"] != "1" || door.Values["net/ipv4/conf/all/arp_ignore"] != "0" {
		t.Errorf("lax: %v", door.Values)
	}
	strict := with(p, proxy.IPVSSettings{StrictARP: true})
	apply(t, New(doors, nil), strict)
	if door.Values["net/ipv4/conf/all/arp_ignore"] != "1" || door.Values["net/ipv4/conf/all/arp_announce"] != "2" {
		t.Errorf("strict: %v", door.Values)
	}
	door.Values["net/ipv4/vs/conntrack"], door.ReadOnly = "0", true
	if _, err := New(doors, nil).Apply(t.Context(), p); !errors.Is(err, sysctl.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
}

func TestSchedulersAndOptions(t *testing.T) {
	p := plans([]string{"10.244.1.5"})[0]
	for _, s := range kipvs.Schedulers {
		got := Render(with(p, proxy.IPVSSettings{Scheduler: s})).state.Servers[cart]
		if got.Scheduler != s || got.Fallback != (s == "sh" || s == "mh") {
			t.Errorf("%s: %+v", s, got)
		}
	}
	for want, s := range map[string]proxy.Settings{
		"there are rr, wrr": {IPVS: proxy.IPVSSettings{Scheduler: "best"}},
		"may be negative":   {IPVS: proxy.IPVSSettings{UDPTimeout: -1}},
		"127.0.0.1":         {NodePorts: proxy.NodePortAddresses{Loopback: true}},
	} {
		if err := New(Doors{}, nil).Can(&s); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// with is a plan with other settings of the mode.
func with(p *proxy.Plan, s proxy.IPVSSettings) *proxy.Plan {
	q := *p
	q.Settings.IPVS = s
	return &q
}

// What excludeCIDRs name stays, also when a process that was told nothing of it removes the rest.
func TestVirtualServersInExcludedRangesStay(t *testing.T) {
	h, fake, b := newFake()
	p := with(plans([]string{"10.244.1.5"})[0], proxy.IPVSSettings{Exclude: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/29"), netip.MustParsePrefix("10.96.0.4/30"), netip.MustParsePrefix("fd00:96::/64")}})
	theirs := &kipvs.Server{Key: kipvs.Key{Addr: netip.MustParseAddrPort("10.96.0.7:8443"), Proto: kipvs.TCP}, Scheduler: "wlc"}
	if err := fake.Apply(t.Context(), []kipvs.Op{{Kind: kipvs.AddServer, Server: theirs}}); err != nil {
		t.Fatal(err)
	}
	apply(t, b, p)
	if drift, err := b.Check(t.Context()); drift != "" || err != nil {
		t.Errorf("drift %q, %v", drift, err)
	}
	r, err := h.backend().Read(t.Context(), p.Node)
	if err != nil || r.Text() != Render(p).Text() {
		t.Errorf("read back, %v:\n%s", err, r.Text())
	}
	if err := h.backend().Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, _ := fake.Read(t.Context())
	if left.Servers[theirs.Key] == nil || left.Device {
		t.Errorf("left: %s", left.Text(Device))
	}
}

// Timeouts are one for the host: they are set when the configuration names them.
func TestTimeoutsAreSet(t *testing.T) {
	_, fake, b := newFake()
	p := plans([]string{"10.244.1.5"})[0]
	apply(t, b, p)
	if fake.Timeouts != (kipvs.Timeouts{}) {
		t.Errorf("without a word: %+v", fake.Timeouts)
	}
	apply(t, b, with(p, proxy.IPVSSettings{TCPTimeout: 600e9, UDPTimeout: 60e9}))
	if want := (kipvs.Timeouts{TCP: 600e9, UDP: 60e9}); fake.Timeouts != want {
		t.Errorf("%+v, want %+v", fake.Timeouts, want)
	}
}

// kube-proxy has the same device: what is there without podway's tables is not podway's.
func TestADeviceWithoutOurTablesIsNotOurs(t *testing.T) {
	h, fake, b := newFake()
	theirs := &kipvs.Server{Key: cart, Scheduler: "rr"}
	if err := fake.Apply(t.Context(), []kipvs.Op{{Kind: kipvs.AddDevice}, {Kind: kipvs.AddAddr, IP: cart.Addr.Addr()}, {Kind: kipvs.AddServer, Server: theirs}}); err != nil {
		t.Fatal(err)
	}
	if mine, err := b.Owns(t.Context()); mine || err != nil {
		t.Errorf("owns %v, %v", mine, err)
	}
	if err := h.backend().Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := fake.Read(t.Context()); !left.Device || left.Servers[cart] == nil {
		t.Errorf("another program's are gone: %s", left.Text(Device))
	}
	apply(t, b, plans([]string{"10.244.1.5"})[0])
	if mine, err := b.Owns(t.Context()); !mine || err != nil {
		t.Errorf("after Apply: owns %v, %v", mine, err)
	}
}

func TestFailedWritesOfTablesAreCounted(t *testing.T) {
	h, _, b := newFake()
	h.FailWrites(func() error { return errors.New("no") })
	if _, err := b.Apply(t.Context(), plans([]string{"10.244.1.5"})[0]); err == nil {
		t.Fatal("the failure was not told")
	}
	if got := b.IPTablesCounts().Failures; got["IPv4"] == 0 || got["IPv4"] != got["IPv6"] {
		t.Errorf("%v", got)
	}
}

func apply(t *testing.T, b *Backend, p *proxy.Plan) {
	t.Helper()
	if _, err := b.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}
