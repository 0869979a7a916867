package endpointslice

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/podway/podway/internal/model"
)

func cart(edit ...func(*model.Service)) *model.Service {
	s := &model.Service{Name: model.N("shop", "cart"), UID: "cart-uid", Type: model.ClusterIP,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, IPFamilies: []string{ipv4},
		Selector: map[string]string{"app": "cart"}, Labels: map[string]string{"team": "red"},
		Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80, TargetPort: model.PortRef{Number: 8080}}}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func pod(i int, edit ...func(*model.Pod)) *model.Pod {
	p := &model.Pod{Name: model.N("shop", fmt.Sprintf("cart-%04d", i)), UID: fmt.Sprintf("uid-%d", i),
		Labels: map[string]string{"app": "cart"}, Node: fmt.Sprintf("node-%d", i%3), Phase: "Running", Ready: true,
		Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, byte(i / 250), byte(1 + i%250)})}}
	for _, e := range edit {
		e(p)
	}
	return p
}

func pods(n int) (out []*model.Pod) {
	for i := range n {
		out = append(out, pod(i))
	}
	return out
}

func nodes() (m Nodes) {
	for i := range 3 {
		name := fmt.Sprintf("node-%d", i)
		m = m.Set(name, &model.Node{Name: name, Ready: true, Zone: fmt.Sprintf("zone-%d", i)})
	}
	return m
}

// cluster stands for the API server: it applies changes and gives names and versions.
type cluster struct {
	slices map[string]*model.EndpointSlice
	next   int
}

func (c *cluster) apply(ch Changes) {
	if c.slices == nil {
		c.slices = map[string]*model.EndpointSlice{}
	}
	for _, s := range ch.Delete {
		delete(c.slices, s.Name.Name)
	}
	for _, s := range append(slices.Clone(ch.Create), ch.Update...) {
		c.next++
		n := *s
		if n.Name.Name == "" {
			n.Name.Name = fmt.Sprintf("%s-%03d", s.Service.Name, c.next)
		}
		n.ResourceVersion = fmt.Sprint(c.next)
		c.slices[n.Name.Name] = &n
	}
}

func (c *cluster) list() (out []*model.EndpointSlice) {
	for _, s := range c.slices {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *model.EndpointSlice) int { return strings.Compare(a.Name.Name, b.Name.Name) })
	return out
}

// text is the slices as lines: "IPv4 http/TCP/8080: cart-0000 ready, ...".
func text(list []*model.EndpointSlice) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "%s", s.AddressType)
		for _, p := range s.Ports {
			fmt.Fprintf(&b, " %s", portKey(p))
		}
		b.WriteString(":")
		for _, e := range s.Endpoints {
			fmt.Fprintf(&b, " %s=%s", e.Pod.Name, e.Addr)
			for _, f := range []struct {
				on   bool
				word string
			}{{e.Ready, "ready"}, {e.Serving, "serving"}, {e.Terminating, "terminating"}, {e.Hostname != "", "host:" + e.Hostname},
				{len(e.ForZones) > 0, "zones:" + strings.Join(e.ForZones, "+")}, {len(e.ForNodes) > 0, "nodes:" + strings.Join(e.ForNodes, "+")}} {
				if f.on {
					b.WriteString("," + f.word)
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestASliceSaysWhatThePodsSay(t *testing.T) {
	six := func(p *model.Pod) { p.Addrs = append(p.Addrs, netip.MustParseAddr("fd00::1")) }
	named := func(s *model.Service) { s.Ports[0].TargetPort = model.PortRef{Name: "web"} }
	web := func(port uint16) func(*model.Pod) {
		return func(p *model.Pod) {
			p.Ports = []model.ContainerPort{{Name: "dns", Protocol: model.UDP, Port: 53}, {Name: "web", Protocol: model.TCP, Port: port}}
		}
	}
	for _, c := range []struct {
		name string
		svc  *model.Service
		pods []*model.Pod
		want string
	}{
		{"a ready Pod is ready and serving", cart(), []*model.Pod{pod(0)}, "IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving\n"},
		{"a Pod that is not ready is listed as such", cart(), []*model.Pod{pod(0, func(p *model.Pod) { p.Ready = false })},
			"IPv4 http/TCP/8080/: cart-0000=10.244.0.1\n"},
		{"publishNotReadyAddresses makes it ready, not serving", cart(func(s *model.Service) { s.PublishNotReady = true }),
			[]*model.Pod{pod(0, func(p *model.Pod) { p.Ready = false })}, "IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready\n"},
		{"a Pod on its way out serves, but is not ready", cart(), []*model.Pod{pod(0, func(p *model.Pod) { p.Deleting = true })},
			"IPv4 http/TCP/8080/: cart-0000=10.244.0.1,serving,terminating\n"},
		{"a Pod that has ended, or has no address, or stands on no known Node, is not listed; an empty slice says so", cart(),
			[]*model.Pod{pod(0, func(p *model.Pod) { p.Phase = "Succeeded" }), pod(1, func(p *model.Pod) { p.Addrs = nil }),
				pod(2, func(p *model.Pod) { p.Node = "gone" })}, "IPv4:\n"},
		{"a named target port is looked up in each Pod", cart(named), []*model.Pod{pod(0, web(8080)), pod(1, web(9090)), pod(2, web(8080)), pod(3)},
			"IPv4: cart-0003=10.244.0.4,ready,serving\n" +
				"IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving cart-0002=10.244.0.3,ready,serving\n" +
				"IPv4 http/TCP/9090/: cart-0001=10.244.0.2,ready,serving\n"},
		{"a headless Service needs no ports", cart(func(s *model.Service) { s.Ports, s.Headless, s.ClusterIPs = nil, true, nil }),
			[]*model.Pod{pod(0)}, "IPv4: cart-0000=10.244.0.1,ready,serving\n"},
		{"the host name stands where the subdomain is the Service", cart(), []*model.Pod{
			pod(0, func(p *model.Pod) { p.Hostname, p.Subdomain = "zero", "cart" }),
			pod(1, func(p *model.Pod) { p.Hostname, p.Subdomain = "one", "other" })},
			"IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving,host:zero cart-0001=10.244.0.2,ready,serving\n"},
		{"each family has its own slices", cart(func(s *model.Service) { s.IPFamilies = []string{ipv6, ipv4} }), []*model.Pod{pod(0, six), pod(1)},
			"IPv6 http/TCP/8080/: cart-0000=fd00::1,ready,serving\n" +
				"IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving cart-0001=10.244.0.2,ready,serving\n"},
		{"PreferClose gives ready endpoints a zone", cart(func(s *model.Service) { s.TrafficDistribution = "PreferClose" }),
			[]*model.Pod{pod(0), pod(1, func(p *model.Pod) { p.Ready = false })},
			"IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving,zones:zone-0 cart-0001=10.244.0.2\n"},
		{"PreferSameNode gives a node as well", cart(func(s *model.Service) { s.TrafficDistribution = "PreferSameNode" }),
			[]*model.Pod{pod(1)}, "IPv4 http/TCP/8080/: cart-0001=10.244.0.2,ready,serving,zones:zone-1,nodes:node-1\n"},
		{"an ExternalName Service has none", cart(func(s *model.Service) { s.Type = model.ExternalName }), pods(1), ""},
		{"a Service without selector is somebody else's", cart(func(s *model.Service) { s.Selector = nil }), pods(1), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Desired(c.svc, c.pods, nodes(), nil)
			if d := cmp.Diff(c.want, text(got.Create)); d != "" || len(got.Update)+len(got.Delete) > 0 {
				t.Fatalf("%s\nand %d updates, %d deletes", d, len(got.Update), len(got.Delete))
			}
			var c2 cluster
			c2.apply(got)
			if again := Desired(c.svc, c.pods, nodes(), c2.list()); !again.Empty() {
				t.Errorf("a second look wants changes: %s%s", text(again.Create), text(again.Update))
			}
		})
	}
}

func TestLabelsAndOwnerFollowTheService(t *testing.T) {
	got := Desired(cart(func(s *model.Service) {
		s.Headless, s.ClusterIPs = true, nil
		s.Labels = map[string]string{"team": "red", labelManagedBy: "me", labelServiceName: "other"}
	}), pods(1), nodes(), nil).Create[0]
	want := map[string]string{"team": "red", labelServiceName: "cart", labelManagedBy: ManagedBy, labelHeadless: ""}
	if d := cmp.Diff(want, got.Labels); d != "" || got.OwnerUID != "cart-uid" || got.ManagedBy != ManagedBy {
		t.Errorf("owner %q, managed by %q, labels %s", got.OwnerUID, got.ManagedBy, d)
	}
	var c cluster
	c.apply(Desired(cart(), pods(3), nodes(), nil))
	ch := Desired(cart(func(s *model.Service) { s.Labels = map[string]string{"team": "blue"} }), pods(3), nodes(), c.list())
	if len(ch.Update) != 1 || len(ch.Create)+len(ch.Delete) != 0 || ch.Update[0].Labels["team"] != "blue" {
		t.Errorf("a relabelled Service relabels its slice, got %+v", ch)
	}
}

func TestOnlyTheSliceThatMustChangeChanges(t *testing.T) {
	all := pods(250)
	var c cluster
	c.apply(Desired(cart(), all, nodes(), nil))
	if n := len(c.list()); n != 3 {
		t.Fatalf("250 Pods take %d slices", n)
	}
	flip := slices.Clone(all)
	flip[120] = pod(120, func(p *model.Pod) { p.Ready = false })
	ch := Desired(cart(), flip, nodes(), c.list())
	if len(ch.Update) != 1 || len(ch.Create)+len(ch.Delete) > 0 {
		t.Fatalf("one Pod flips, %d updates %d creates", len(ch.Update), len(ch.Create))
	}
	old := c.slices[ch.Update[0].Name.Name]
	if d := cmp.Diff(old.Endpoints, ch.Update[0].Endpoints, cmpopts.EquateComparable(netip.Addr{})); strings.Count(d, "\n-") != 2 {
		t.Errorf("ready and serving of one endpoint differ, and nothing moves; got %s", d)
	}
	ch = Desired(cart(), append(slices.Clone(all), pod(250), pod(251)), nodes(), c.list())
	if len(ch.Update) != 1 || len(ch.Create) > 0 || len(ch.Update[0].Endpoints) != 52 {
		t.Errorf("two more Pods go into the slice with room: %d updates, %d creates", len(ch.Update), len(ch.Create))
	}
	ch = Desired(cart(), append(slices.Clone(all[1:]), pod(250)), nodes(), c.list())
	if len(ch.Update) != 1 || len(ch.Update[0].Endpoints) != 100 {
		t.Errorf("a new Pod takes the place of one that goes: %s", text(ch.Update))
	}
	ch = Desired(cart(), nil, nodes(), c.list())
	if len(ch.Update) != 1 || len(ch.Delete) != 2 || len(ch.Update[0].Endpoints)+len(ch.Update[0].Ports) != 0 {
		t.Errorf("without Pods one empty slice stays: %d updates, %d deletes", len(ch.Update), len(ch.Delete))
	}
}

func TestASliceOfAnEarlierServiceOfTheNameGoes(t *testing.T) {
	var c cluster
	c.apply(Desired(cart(), pods(2), nodes(), nil))
	ch := Desired(cart(func(s *model.Service) { s.UID = "new" }), pods(2), nodes(), c.list())
	if len(ch.Delete) != 1 || len(ch.Create) != 1 || ch.Create[0].OwnerUID != "new" {
		t.Errorf("got %+v", ch)
	}
	ch = Desired(cart(func(s *model.Service) { s.UID, s.Deleting = "new", true }), pods(2), nodes(), c.list())
	if len(ch.Create) != 0 {
		t.Error("a Service on its way out gets no new slices")
	}
}

func TestAnEmptyListOfNodesIsNotBelieved(t *testing.T) {
	if got := Desired(cart(), pods(2), Nodes{}, nil); len(got.Create) != 1 || len(got.Create[0].Endpoints) != 2 {
		t.Errorf("got %s", text(got.Create))
	}
}

func TestDeriveGivesEverySelectedPodASlice(t *testing.T) {
	b := model.NewBuilder(nil)
	b.Put(cart())
	b.Put(cart(func(s *model.Service) { s.Name.Name, s.Selector = "byhand", nil }))
	for _, p := range pods(2) {
		b.Put(p)
	}
	b.Put(pod(9, func(p *model.Pod) { p.Name.Namespace = "other" }))
	got := Derive(b.Snapshot(time.Now()))
	if len(got) != 1 || got[0].Name != model.N("shop", "cart-ipv4-1") || len(got[0].Endpoints) != 2 {
		t.Errorf("got %s", text(got))
	}
}
