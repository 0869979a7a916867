package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
)

var _ hop.Hop = (*Hop)(nil)

func clusterIP(ns, name string, ips ...string) *model.Service {
	s := &model.Service{Name: model.N(ns, name), Type: model.ClusterIP, Selector: map[string]string{"app": name}}
	for _, ip := range ips {
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr(ip))
	}
	return s
}

func headless(ns, name string, selector map[string]string) *model.Service {
	return &model.Service{Name: model.N(ns, name), Headless: true, Selector: selector}
}

func slice(ns, service string, ready bool, addrs ...string) *model.EndpointSlice {
	sl := &model.EndpointSlice{Name: model.N(ns, service+"-a"), Service: model.N(ns, service)}
	for _, a := range addrs {
		sl.Endpoints = append(sl.Endpoints, model.Endpoint{Addr: netip.MustParseAddr(a), Ready: ready})
	}
	return sl
}

func snapshot(objects ...any) *model.Snapshot {
	b := model.NewBuilder(nil)
	for _, o := range objects {
		b.Put(o)
	}
	return b.Snapshot(time.Now())
}

func shop() *model.Snapshot {
	return snapshot(
		clusterIP("shop", "cart", "10.96.0.7"),
		clusterIP("shop", "six", "fd00::6"),
		clusterIP("web", "front", "10.96.0.8"),
		headless("shop", "db", map[string]string{"app": "db"}), slice("shop", "db", true, "10.244.1.5", "10.244.1.6"),
		headless("shop", "cold", map[string]string{"app": "cold"}), slice("shop", "cold", false, "10.244.1.7"),
		&model.Pod{Name: model.N("shop", "cold-0"), Labels: map[string]string{"app": "cold"}, Problem: "ContainersNotReady"},
		headless("shop", "lost", map[string]string{"app": "lots"}),
		headless("shop", "manual", nil),
		&model.Service{Name: model.N("shop", "pay"), Type: model.ExternalName, ExternalName: "pay.example.com"},
		&model.Service{Name: model.N("shop", "basket"), Type: model.ExternalName, ExternalName: "cart.shop.svc.cluster.local"},
	)
}

// fromWeb asks as a Pod of namespace web does.
func fromWeb(name, typ string) flow.Flow {
	return flow.Flow{From: flow.FromPod, DNS: &flow.Question{Name: name, Type: typ, NDots: 5,
		Search: []string{"web.svc.cluster.local", "svc.cluster.local", "cluster.local"}}}
}

func newHop(t *testing.T, o Options) *Hop {
	t.Helper()
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

var loopback = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}

// questions are what a Pod of namespace web asks, and what comes of it; the finding is "" or its code and fix.
var questions = []struct{ sentence, name, typ, want, answered, finding string }{
	{"a Service of another namespace by its short name", "cart.shop", "A", "answer NOERROR [A 10.96.0.7]", "cart.shop.svc.cluster.local.", ""},
	{"a Service of the client's namespace by its bare name", "front", "A", "answer NOERROR [A 10.96.0.8]", "front.web.svc.cluster.local.", ""},
	{"a whole name without final dot", "cart.shop.svc.cluster.local", "A", "answer NOERROR [A 10.96.0.7]", "cart.shop.svc.cluster.local.", ""},
	{"a whole name with final dot", "cart.shop.svc.cluster.local.", "A", "answer NOERROR [A 10.96.0.7]", "cart.shop.svc.cluster.local.", ""},
	{"no type means A", "cart.shop", "", "answer NOERROR [A 10.96.0.7]", "cart.shop.svc.cluster.local.", ""},
	{"a headless Service", "db.shop", "A", "answer NOERROR [A 10.244.1.5, A 10.244.1.6]", "db.shop.svc.cluster.local.", ""},
	{"a Service of the other family has no data", "six.shop", "A", "answer NOERROR", "six.shop.svc.cluster.local.", ""},
	{"an ExternalName to the world passes with its CNAME", "pay.shop", "A", "pass NOERROR [CNAME pay.example.com.]", "pay.shop.svc.cluster.local.", ""},
	{"an ExternalName in the cluster is answered", "basket.shop", "A", "answer NOERROR [A 10.96.0.7, CNAME cart.shop.svc.cluster.local.]", "basket.shop.svc.cluster.local.", ""},
	{"a name of the world passes", "example.com", "A", "pass", "example.com.", ""},
	{"a name of the world passes though a Service has its first label", "cart.example", "A", "pass", "cart.example.", ""},
	{"an absolute name of the world passes", "cart.shop.", "A", "pass", "cart.shop.", ""},
	{"a Service of another namespace by its bare name does not exist", "cart", "A", "answer NXDOMAIN", "cart.web.svc.cluster.local.", "PW-1001 use cart.shop"},
	{"a mistyped Service of another namespace", "crat.shop", "A", "answer NXDOMAIN", "crat.shop.svc.cluster.local.", "PW-1001 use cart.shop"},
	{"a mistyped namespace", "cart.shp", "A", "answer NXDOMAIN", "cart.shp.svc.cluster.local.", "PW-1001 use cart.shop"},
	{"a mistyped whole name", "crat.shop.svc.cluster.local", "A", "answer NXDOMAIN", "crat.shop.svc.cluster.local.", "PW-1001 use cart.shop"},
	{"a name with svc and without domain", "nothing.shop.svc", "A", "answer NXDOMAIN", "nothing.shop.svc.cluster.local.", "PW-1001"},
	{"a headless Service whose Pods are not ready", "cold.shop", "A", "answer NXDOMAIN", "cold.shop.svc.cluster.local.", "PW-1202"},
	{"a headless Service whose selector matches nothing", "lost.shop", "A", "answer NXDOMAIN", "lost.shop.svc.cluster.local.", "PW-1201"},
	{"a headless Service without selector and slices", "manual.shop", "A", "answer NXDOMAIN", "manual.shop.svc.cluster.local.", "PW-1205"},
	{"a name below a Service", "x.cart.shop.svc.cluster.local", "A", "answer NXDOMAIN", "x.cart.shop.svc.cluster.local.", "PW-1001"},
	{"a type that is none", "cart.shop", "NONSENSE", "answer FORMERR", "", ""},
	{"a name that is none", strings.Repeat("x", 70), "A", "answer FORMERR", "", ""},
}

func TestDeclaredAndProgrammedAgreeOnEveryQuestion(t *testing.T) {
	world := fakeWorld(t)
	s := shop()
	h := newHop(t, Options{Node: "node-1", Listen: loopback, Upstreams: []netip.AddrPort{world}})
	if _, err := h.Apply(t.Context(), s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	for _, c := range questions {
		t.Run(c.sentence, func(t *testing.T) {
			v := h.Declared(s, fromWeb(c.name, c.typ))
			if v.String() != c.want || c.answered != "" && v.Name != c.answered {
				t.Errorf("%s %s: got %s by %s, want %s by %s", c.typ, c.name, v, v.Name, c.want, c.answered)
			}
			code, fix, _ := strings.Cut(c.finding, " ")
			switch {
			case c.finding == "" && len(v.Findings) > 0, c.finding != "" && len(v.Findings) != 1:
				t.Errorf("findings: %+v", v.Findings)
			case c.finding != "" && (string(v.Findings[0].Code) != code || fix != "" && v.Findings[0].Fix != fix):
				t.Errorf("finding %+v, want %s", v.Findings[0], c.finding)
			}
			if v.Why == "" {
				t.Error("no word why")
			}
			p, err := h.Programmed(t.Context(), fromWeb(c.name, c.typ))
			if err != nil || !p.Same(v) || p.Name != v.Name {
				t.Errorf("programmed %s by %s (%s), declared %s by %s: %v", p, p.Name, p.Why, v, v.Name, err)
			}
		})
	}
}

// fakeWorld is an upstream server in which every name of example.com exists.
func fakeWorld(t *testing.T) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg).SetReply(q)
		if a.Rcode = dns.RcodeNameError; strings.HasSuffix(q.Question[0].Name, "example.com.") {
			a.Rcode = dns.RcodeSuccess
			rr, _ := dns.NewRR(q.Question[0].Name + " 60 IN A 192.0.2.1")
			a.Answer = []dns.RR{rr}
		}
		w.WriteMsg(a)
	})}
	go s.ActivateAndServe()
	t.Cleanup(func() { s.Shutdown() })
	return netip.MustParseAddrPort(pc.LocalAddr().String())
}

func TestSearchWithFewDotsRequired(t *testing.T) {
	h, s := newHop(t, Options{}), shop()
	for name, want := range map[string]string{
		"cart.shop":   "answer NOERROR [A 10.96.0.7]", // tried as it is first, which the world has not
		"example.com": "pass",
		"front":       "answer NOERROR [A 10.96.0.8]",
	} {
		f := fromWeb(name, "A")
		f.DNS.NDots = 1
		if got := h.Declared(s, f).String(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	f := fromWeb("nope.shop.svc.cluster.local", "A")
	f.DNS.Search = append(f.DNS.Search, "corp.example")
	if got := h.Declared(s, f); got.Rcode != "NXDOMAIN" || got.Name != "nope.shop.svc.cluster.local." {
		t.Errorf("a search domain of the world must not hide that a name of the cluster is missing: %s by %s", got, got.Name)
	}
}

func TestFindingsSayWhatWasTried(t *testing.T) {
	v := newHop(t, Options{}).Declared(shop(), fromWeb("cart", "A"))
	want := []flow.Finding{{Code: flow.NoSuchName, Severity: flow.Error, Object: "name cart.web.svc.cluster.local.", Fix: "use cart.shop",
		Cause:    "There is no Service cart in namespace web; there is shop/cart.",
		Evidence: []string{"declared cart.web.svc.cluster.local. NXDOMAIN", "declared cart.svc.cluster.local. NXDOMAIN", "declared cart.cluster.local. NXDOMAIN"}}}
	if diff := cmp.Diff(want, v.Findings); diff != "" {
		t.Error(diff)
	}
}

func TestApplyIsSwappedOnceAndSaysWhatChanged(t *testing.T) {
	h, s := newHop(t, Options{Listen: loopback}), shop()
	if err := h.Ready(); err == nil {
		t.Error("ready before the first view")
	}
	r, err := h.Apply(t.Context(), s, model.Everything())
	if err != nil || r.Changed == 0 || !r.Full {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := h.Ready(); err != nil {
		t.Error(err)
	}
	addrs := h.Addrs()
	if r, _ = h.Apply(t.Context(), s, model.Everything()); r.Changed != 0 {
		t.Errorf("the same snapshot again changed %d", r.Changed)
	}
	b := model.NewBuilder(s)
	b.Put(clusterIP("shop", "new", "10.96.0.9"))
	b.Put(slice("shop", "cart", true, "10.244.3.3")) // endpoints of a ClusterIP are no answers
	next := b.Snapshot(time.Now())
	if r, err = h.Apply(t.Context(), next, model.Diff(s, next)); err != nil || r.Changed != 1 || r.Full {
		t.Errorf("%+v, %v", r, err)
	}
	if diff := cmp.Diff(addrs, h.Addrs(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Errorf("the sockets must stay: %s", diff)
	}
}

func TestATakenAddressIsAnErrorThatIsRetriedWhileTheViewIsKept(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := netip.MustParseAddrPort(taken.LocalAddr().String())
	h, s := newHop(t, Options{Listen: []netip.AddrPort{addr}}), shop()
	if _, err := h.Apply(t.Context(), s, model.Everything()); err == nil || !strings.Contains(err.Error(), addr.String()) || h.Ready() == nil {
		t.Fatalf("apply: %v, ready: %v", err, h.Ready())
	}
	if v, err := h.Programmed(t.Context(), fromWeb("cart.shop", "A")); err != nil || v.Action != flow.Refused || v.Findings[0].Code != flow.DNSServerDown {
		t.Errorf("programmed: %+v, %v", v, err)
	}
	taken.Close()
	if _, err := h.Apply(t.Context(), s, model.Everything()); err != nil || h.Ready() != nil {
		t.Errorf("apply: %v, ready: %v", err, h.Ready())
	}
}

func TestBeforeTheFirstViewTheLiveAnswerIsSERVFAIL(t *testing.T) {
	h := newHop(t, Options{Listen: loopback, Upstreams: []netip.AddrPort{fakeWorld(t)}})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := h.Programmed(t.Context(), fromWeb("cart.shop", "A"))
	if err != nil || v.Rcode != "SERVFAIL" || len(v.Findings) != 1 || v.Findings[0].Code != flow.DNSNotSynced {
		t.Errorf("got %+v, %v", v, err)
	}
	if v, _ = h.Programmed(t.Context(), fromWeb("example.com.", "A")); v.Action != flow.Pass || !strings.Contains(v.Why, "192.0.2.1") {
		t.Errorf("the world: %+v", v)
	}
}

func TestADeadWorldIsAFinding(t *testing.T) {
	h := newHop(t, Options{Listen: loopback, Upstreams: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}})
	if _, err := h.Apply(t.Context(), shop(), model.Everything()); err != nil {
		t.Fatal(err)
	}
	v, err := h.Programmed(t.Context(), fromWeb("example.com", "A"))
	if err != nil || v.Action != flow.Pass || len(v.Findings) != 1 || v.Findings[0].Code != flow.DNSUpstreamDown {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestALoopIsFoundReportedAndOtherNamesStillAnswered(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0") // a port for a server in between
	if err != nil {
		t.Fatal(err)
	}
	h := newHop(t, Options{Node: "node-1", Listen: loopback, Upstreams: []netip.AddrPort{netip.MustParseAddrPort(pc.LocalAddr().String())}})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := h.Addrs()[0].String()
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { // forwards to us
		if a, err := dns.Exchange(q, back); err == nil {
			w.WriteMsg(a)
		}
	})}
	go s.ActivateAndServe()
	defer s.Shutdown()
	a, err := dns.Exchange(new(dns.Msg).SetQuestion("example.com.", dns.TypeA), back)
	if err != nil || a.Rcode != dns.RcodeServerFailure {
		t.Errorf("got %v, %v", a, err)
	}
	r, err := h.Apply(t.Context(), shop(), model.Everything())
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Code != flow.DNSLoop {
		t.Errorf("got %+v, %v", r, err)
	}
	if a, err = dns.Exchange(new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA), back); err != nil || len(a.Answer) != 1 {
		t.Errorf("got %v, %v", a, err)
	}
}

func TestALoopThatHidesFromTheProbeMakesNoFlood(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := newHop(t, Options{Listen: loopback, Upstreams: []netip.AddrPort{netip.MustParseAddrPort(pc.LocalAddr().String())}})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := h.Addrs()[0].String()
	var passed atomic.Int32
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if q.Question[0].Name != "example.com." { // a probe for loops, or a check whether the server is there
			return
		}
		passed.Add(1)
		if a, err := dns.Exchange(q, back); err == nil {
			w.WriteMsg(a)
		}
	})}
	go s.ActivateAndServe()
	defer s.Shutdown()
	c := dns.Client{Timeout: 6 * time.Second}
	a, _, err := c.Exchange(new(dns.Msg).SetQuestion("example.com.", dns.TypeA), back)
	if err != nil || a.Rcode != dns.RcodeServerFailure || passed.Load() > 3 {
		t.Errorf("got %v, %v; the question went round %d times", a, err, passed.Load())
	}
}

func TestTheDNSServiceItselfIsNoUpstream(t *testing.T) {
	o := Options{Listen: loopback, Nameservers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
	if got := fmt.Sprint(o.own(nil)); got != "[127.0.0.1:0 10.96.0.10:53]" {
		t.Errorf("got %s", got)
	}
}

func TestCloseGoesOnAnsweringForAWhile(t *testing.T) {
	h := newHop(t, Options{Listen: loopback, Lameduck: 150 * time.Millisecond})
	if _, err := h.Apply(t.Context(), shop(), model.Everything()); err != nil {
		t.Fatal(err)
	}
	addr, done, began := h.Addrs()[0].String(), make(chan error, 1), time.Now()
	go func() { done <- h.Close(context.Background()) }()
	time.Sleep(50 * time.Millisecond)
	if h.Ready() == nil {
		t.Error("ready while it closes")
	}
	q := new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA)
	if a, err := dns.Exchange(q, addr); err != nil || len(a.Answer) != 1 {
		t.Errorf("while it closes: %v, %v", a, err)
	}
	if err := <-done; err != nil || time.Since(began) < 150*time.Millisecond {
		t.Errorf("closed after %v: %v", time.Since(began), err)
	}
	if a, err := dns.Exchange(q, addr); err == nil {
		t.Errorf("after it closed: %v", a)
	}
}

func TestRemoveClosesAndApplyOpensAgain(t *testing.T) {
	h, s := newHop(t, Options{Listen: loopback}), shop()
	for range 2 {
		if _, err := h.Apply(t.Context(), s, model.Everything()); err != nil || len(h.Addrs()) != 1 || h.Ready() != nil {
			t.Fatalf("apply: %v, addresses %v", err, h.Addrs())
		}
		if err := h.Remove(t.Context()); err != nil || len(h.Addrs()) != 0 || h.Ready() == nil {
			t.Fatalf("remove: %v, addresses %v", err, h.Addrs())
		}
	}
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	h := newHop(t, Options{Listen: loopback, Metrics: r})
	b := model.NewBuilder(nil)
	b.Put(clusterIP("shop", "cart", "10.96.0.7"))
	if _, err := h.Apply(t.Context(), b.Snapshot(time.Now().Add(-90*time.Second)), model.Everything()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Programmed(t.Context(), fromWeb("cart.shop", "A")); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n, _ := testutil.GatherAndCount(r, "coredns_dns_request_duration_seconds"); n > 0 {
			break // the time of an answer is counted when it has been sent
		}
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		got[f.GetName()] = true
		if f.GetName() == "podway_dns_view_age_seconds" {
			if age := f.Metric[0].Gauge.GetValue(); age < 90 || age > 120 {
				t.Errorf("age %v", age)
			}
		}
	}
	for _, name := range []string{"coredns_dns_requests_total", "coredns_dns_responses_total", "coredns_dns_request_duration_seconds",
		"podway_dns_view_age_seconds", "podway_dns_services"} {
		if !got[name] {
			t.Errorf("no %s", name)
		}
	}
}

func TestDeclaredIsCheapInALargeCluster(t *testing.T) {
	b := model.NewBuilder(nil)
	for i := range 5000 {
		b.Put(clusterIP(fmt.Sprint("ns-", i%50), fmt.Sprint("svc-", i), fmt.Sprintf("10.96.%d.%d", i/250, i%250)))
	}
	s, h := b.Snapshot(time.Now()), newHop(t, Options{})
	if n := testing.AllocsPerRun(10, func() { h.Declared(s, fromWeb("svc-77.ns-27", "A")) }); n > 500 {
		t.Errorf("%v allocations: more than the Services in question were compiled", n)
	}
}
