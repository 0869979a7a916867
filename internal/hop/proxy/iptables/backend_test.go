package iptables

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/model"
)

func TestTheRulesReadAsExpected(t *testing.T) {
	for _, c := range hoptest.ServiceCases() {
		file := map[string]string{"exposed": "exposed", "dual stack, sticky, Local, guarded": "everything", "no ready endpoint": "empty", "source ranges without endpoints": "guarded"}[c.Name]
		if file == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			got := Render(proxytest.Default().Decide(c.Snapshot)).Text()
			proxytest.Golden(t, "testdata/"+file+".rules", got)
		})
	}
}

// The names are what operators search for: they are those of every cluster with kube-proxy.
func TestChainsAreNamedAsInEveryCluster(t *testing.T) {
	for _, c := range []struct{ namespace, service, port, proto, want string }{
		{"default", "kubernetes", "https", "tcp", "KUBE-SVC-NPX46M4PTMTKRN6Y"},
		{"kube-system", "kube-dns", "dns", "udp", "KUBE-SVC-TCOU7JCQXEZGVUNU"},
		{"kube-system", "kube-dns", "dns-tcp", "tcp", "KUBE-SVC-ERIFXISQEP7F7OF4"},
		{"kube-system", "kube-dns", "metrics", "tcp", "KUBE-SVC-JD5MR3NA4I4DYORP"},
	} {
		if got, _ := hash(clusterChain, nil, portName(c.namespace, c.service, c.port), c.proto); got != c.want {
			t.Errorf("%s/%s:%s %s: got %s, want %s", c.namespace, c.service, c.port, c.proto, got, c.want)
		}
	}
}

func newFake() (*kipt.Fake, *Backend) {
	fake := kipt.NewFake()
	return fake, New(func() (kipt.Door, error) { return fake, nil }, nil)
}

func TestAChangeOfOneServiceWritesOnlyItsChains(t *testing.T) {
	fake, b := newFake()
	one, two := proxytest.Plans("10.244.2.7")
	if done, err := b.Apply(t.Context(), one); err != nil || !done.Full {
		t.Fatalf("first: %+v, %v", done, err)
	}
	if fake.Restores() != 2 {
		t.Errorf("first: %d runs of the tool, want one for each family", fake.Restores())
	}
	// The chain of the choice with three rules, the new endpoint's with one, and the old endpoint's deleted.
	if done, err := b.Apply(t.Context(), two); err != nil || done.Full || done.Changed != 7 {
		t.Errorf("second: %+v, %v; want 7 changes, not full", done, err)
	}
	if fake.Restores() != 3 {
		t.Errorf("second: %d runs of the tool, want one", fake.Restores()-2)
	}
}

func TestAServiceThatComesAddsOneRuleToEachListAndTakesItAway(t *testing.T) {
	fake, b := newFake()
	c := hoptest.NewCluster().Put(hoptest.Service("cart", 7), hoptest.Slice("cart", hoptest.Ready("10.244.1.5")))
	p := proxy.NewPlanner(hoptest.NodeA)
	one := c.Snapshot()
	first, _ := p.Update(one, model.Everything())
	if _, err := b.Apply(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	before := fake.Save(kipt.IPv4, kipt.NAT) + fake.Save(kipt.IPv4, kipt.Filter)
	two := hoptest.NewCluster().Put(hoptest.Service("cart", 7), hoptest.Slice("cart", hoptest.Ready("10.244.1.5")), hoptest.Service("web", 8)).Snapshot()
	second, _ := p.Update(two, model.Diff(one, two))
	// Its ports refused, its other ports refused.
	if done, err := b.Apply(t.Context(), second); err != nil || done.Full || done.Changed != 2 {
		t.Errorf("come: %+v, %v; want 2 changes, not full", done, err)
	}
	third, _ := p.Update(one, model.Diff(two, one))
	if done, err := b.Apply(t.Context(), third); err != nil || done.Full || done.Changed != 2 {
		t.Errorf("go: %+v, %v; want 2 changes, not full", done, err)
	}
	if d := cmp.Diff(before, fake.Save(kipt.IPv4, kipt.NAT)+fake.Save(kipt.IPv4, kipt.Filter)); d != "" {
		t.Error(d)
	}
}

func TestRulesAndFailuresAreCounted(t *testing.T) {
	fake, b := newFake()
	one, two := proxytest.Plans("10.244.2.7")
	nat := proxy.TableFamily{Table: kipt.NAT, Family: "IPv4"}
	there := func() int { return strings.Count(fake.Save(kipt.IPv4, kipt.NAT), "\n-A ") }
	for i, p := range []*proxy.Plan{one, two, two} {
		if _, err := b.Apply(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		// The second plan has one endpoint instead of another: three rules of the choice, and its own one.
		got, want := b.IPTablesCounts(), []int{there(), 4, 0}[i]
		if got.Rules[nat] != there() || got.Written[nat] != want || len(got.Failures) != 0 {
			t.Errorf("step %d: %+v; want %d rules, %d written", i, got, there(), want)
		}
	}
	fake.Fail = func() error { return errors.New("no") }
	for range 2 { // a part, then everything
		if _, err := b.Apply(t.Context(), one); err == nil {
			t.Fatal("the failure was not told")
		}
	}
	if got := b.IPTablesCounts(); got.Failures["IPv4"] != 2 || got.PartialFailures["IPv4"] != 1 {
		t.Errorf("after two failures: %+v", got)
	}
}

func TestAfterAFailureEverythingIsCompared(t *testing.T) {
	fake, b := newFake()
	one, two := proxytest.Plans("10.244.2.7")
	if _, err := b.Apply(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	fake.Fail = func() error { return errors.New("no") }
	if _, err := b.Apply(t.Context(), two); err == nil {
		t.Fatal("the failure was not told")
	}
	fake.Fail = nil
	// Meanwhile somebody breaks another Service: a full comparison mends that too.
	if err := fake.Restore(t.Context(), kipt.IPv4, []byte("*filter\n-F KUBE-SERVICES\nCOMMIT\n")); err != nil {
		t.Fatal(err)
	}
	if done, err := b.Apply(t.Context(), two); err != nil || !done.Full {
		t.Fatalf("%+v, %v; want everything to be compared", done, err)
	}
	got, err := b.Read(t.Context(), two.Node)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Render(two).Text(), got.Text()); d != "" {
		t.Error(d)
	}
}

func TestDriftIsNoticedSaidAndRepaired(t *testing.T) {
	ctx := t.Context()
	fake, b := newFake()
	plan, _ := proxytest.Plans("10.244.2.7")
	if _, err := b.Apply(ctx, plan); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ input, drift string }{
		{"", ""},
		{"*nat\n:OTHER - [0:0]\n-A OTHER -j RETURN\n-I PREROUTING -j OTHER\nCOMMIT\n", ""},
		{"*filter\n-F KUBE-CLUSTER-IPS\nCOMMIT\n", "KUBE-CLUSTER-IPS"},
		{"*nat\n-F PREROUTING\nCOMMIT\n", "-I PREROUTING"},
		{"*nat\n-A KUBE-MARK-MASQ -j RETURN\nCOMMIT\n", "write chain KUBE-MARK-MASQ"},
		{"*nat\n:KUBE-SVC-STRANGER - [0:0]\nCOMMIT\n", "delete chain KUBE-SVC-STRANGER"},
		{"*nat\n-I OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\nCOMMIT\n", "-D OUTPUT"},
		{"*filter\n-F INPUT\n-F OUTPUT\n-F FORWARD\nCOMMIT\n", "-I FORWARD"},
	} {
		if c.input != "" {
			if err := fake.Restore(ctx, kipt.IPv4, []byte(c.input)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.Check(ctx)
		if err != nil || (got == "") != (c.drift == "") || !strings.Contains(got, c.drift) {
			t.Errorf("after %q: drift %q, %v; want %q", c.input, got, err, c.drift)
		}
		if _, err := b.Apply(ctx, plan); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Check(ctx); got != "" || err != nil {
			t.Errorf("after the repair: %q, %v", got, err)
		}
		r, err := b.Read(ctx, plan.Node)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(Render(plan).Text(), r.Text()); d != "" {
			t.Errorf("after %q the rules are not back:\n%s", c.input, d)
		}
	}
}

func TestAWriteBesideOursIsLookedAt(t *testing.T) {
	ctx := t.Context()
	fake, b := newFake()
	one, two := proxytest.Plans("10.244.2.7")
	if _, err := b.Apply(ctx, one); err != nil {
		t.Fatal(err)
	}
	if b.stamp == "" {
		t.Fatal("after a write of our own everything would be compared")
	}
	if err := fake.Restore(ctx, kipt.IPv4, []byte("*filter\n-F KUBE-CLUSTER-IPS\nCOMMIT\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(ctx, two); err != nil { // before anybody checked
		t.Fatal(err)
	}
	if drift, err := b.Check(ctx); err != nil || !strings.Contains(drift, "KUBE-CLUSTER-IPS") {
		t.Errorf("%q, %v", drift, err)
	}
}

func TestWhenComparingIsCostlyEmptiedTablesAreStillNoticedAtOnce(t *testing.T) {
	ctx := t.Context()
	fake, b := newFake()
	plan, _ := proxytest.Plans("10.244.2.7")
	if _, err := b.Apply(ctx, plan); err != nil {
		t.Fatal(err)
	}
	other := []byte("*mangle\n:OTHER - [0:0]\nCOMMIT\n")
	if err := fake.Restore(ctx, kipt.IPv4, other); err != nil {
		t.Fatal(err)
	}
	if drift, err := b.Check(ctx); drift != "" || err != nil {
		t.Fatalf("%q, %v", drift, err)
	}
	b.took = ration * costly // as if the last comparison had been long
	if err := fake.Restore(ctx, kipt.IPv4, []byte("*nat\n-F OUTPUT\nCOMMIT\n")); err != nil {
		t.Fatal(err)
	}
	if drift, err := b.Check(ctx); err != nil || !strings.Contains(drift, "OUTPUT does not jump to KUBE-SERVICES") {
		t.Errorf("%q, %v", drift, err)
	}
}

func TestAHostThatLacksSomethingIsSaidClearly(t *testing.T) {
	b := New(func() (kipt.Door, error) { return nil, errors.ErrUnsupported }, nil)
	if err := b.Supported(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	fake, b := newFake()
	if err := b.Supported(t.Context()); err != nil {
		t.Error(err)
	}
	if left := fake.Save(kipt.IPv4, kipt.NAT); strings.Contains(left, "KUBE") {
		t.Errorf("the test left %s", left)
	}
}

func TestWithoutIPv6OnlyIPv4IsWritten(t *testing.T) {
	fake, b := newFake()
	fake.NoIPv6 = true
	plan, _ := proxytest.Plans("10.244.2.7")
	if _, err := b.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if drift, err := b.Check(t.Context()); drift != "" || err != nil {
		t.Errorf("%q, %v", drift, err)
	}
	if err := b.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
