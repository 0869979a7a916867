package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy/health"
	"github.com/podway/podway/internal/model"
)

func TestAHealthCheckPortThatIsTakenIsOpenedOnceItIsFree(t *testing.T) {
	var log, events []string
	taken := true
	p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log},
		Event: func(n model.Name, reason, note string) { events = append(events, n.String()+" "+reason) },
		Listen: func(string) (net.Listener, error) {
			if taken {
				return nil, errors.New("address already in use")
			}
			return net.Listen("tcp", "127.0.0.1:0")
		}})
	t.Cleanup(func() { p.Remove(context.Background()) })
	svc := hoptest.Service("cart", 7, func(s *model.Service) {
		s.Type, s.ExternalPolicyLocal, s.HealthCheckNodePort, s.Ports[0].NodePort = model.LoadBalancer, true, 32100, 30080
	})
	r, err := p.Apply(t.Context(), hoptest.NewCluster().Put(svc, hoptest.Slice("cart", hoptest.Ready("10.244.1.5"))).Snapshot(), model.Everything())
	if err != nil {
		t.Fatal(err)
	}
	has := func(fs []flow.Finding) bool {
		return slices.ContainsFunc(fs, func(f flow.Finding) bool { return f.Code == flow.HealthPortTaken && f.Object == "Service shop/cart" })
	}
	if !has(r.Findings) || !has(p.Findings()) {
		t.Errorf("findings %+v", r.Findings)
	}
	for range 3 { // as the agent does each second; nothing changes in the cluster
		if drift, err := p.Check(t.Context()); drift != "" || err != nil {
			t.Fatal(drift, err)
		}
	}
	if want := []string{"shop/cart FailedToStartServiceHealthcheck"}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q: said once", events, want)
	}
	taken = false
	if _, err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has(p.Findings()) {
		t.Error("the finding stays though the port is open")
	}
	if n := p.health.Names(); len(n) != 1 {
		t.Errorf("answered for %v", n)
	}
}

func TestANodeThatIsAboutToGoIsNotEligible(t *testing.T) {
	var log []string
	for _, c := range []struct {
		change func(*model.Node)
		want   bool
	}{
		{func(*model.Node) {}, true},
		{func(n *model.Node) { n.Deleting = true }, false},
		{func(n *model.Node) { n.Leaving = true }, false},
		{func(n *model.Node) { n.Name = "other" }, false},
	} {
		h := health.NewNode(grace)
		p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log}, Health: h})
		n := *hoptest.Node(hoptest.NodeA, hoptest.ZoneA, 1)
		c.change(&n)
		b := model.NewBuilder(nil)
		b.Put(&n)
		if _, err := p.Apply(t.Context(), b.Snapshot(time.Now()), model.Everything()); err != nil {
			t.Fatal(err)
		}
		if got := h.Eligible(); got != c.want {
			t.Errorf("%+v: eligible %v, want %v", n, got, c.want)
		}
	}
}
