package scenario

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/model"
)

const shop = `A Service spreads over its ready Pods (KEP-752).
-- cluster.yaml --
apiVersion: v1
kind: Pod
metadata: {name: web-0}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop, labels: {app: cart}}
spec: {nodeName: node-b, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, ports: [{port: 80, targetPort: http}]}
-- expect --
# comments and blank lines are skipped

pod web-0 -> tcp cart.shop:80 => pod cart-1 from pod web-0
[model rules] slices cart => pod cart-1:8080 ready
-- then-1.yaml --
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop}
status: {conditions: [{type: Ready, status: "False"}]}
-- expect-1 --
pod web-0 -> tcp cart.shop:80 => refused
-- then-2.yaml --
delete: [Pod shop/cart-1]
-- expect-2 --
slices shop/cart => none
`

func TestAScenarioIsReadWithItsSteps(t *testing.T) {
	f, err := Parse("shop.txtar", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Steps) != 3 || !strings.HasPrefix(f.About, "A Service spreads") {
		t.Fatalf("%d steps, about %q", len(f.Steps), f.About)
	}
	e := f.Steps[0].Expect[0]
	if e.Line != 19 || e.Want.From != "pod default/web-0" || !cmp.Equal(e.Want.Pods, []string{"shop/cart-1"}) {
		t.Errorf("first expectation: %+v", e)
	}
	if e = f.Steps[0].Expect[1]; e.At(Kernel) || !e.At(Rules) {
		t.Errorf("levels of the second expectation: %v", e.Levels)
	}
	cart1 := model.N("shop", "cart-1")
	for i, ready := range []bool{true, false} {
		if p := f.Steps[i].State.Snapshot.Pods.At(cart1); p == nil || p.Ready != ready || p.Ports[0].Port != 8080 {
			t.Errorf("step %d: Pod %+v, want ready %t and its port kept", i, p, ready)
		}
	}
	if p := f.Steps[2].State.Snapshot.Pods.At(cart1); p != nil {
		t.Error("the deleted Pod is still there")
	}
}

func TestShortFormsAreFilledIn(t *testing.T) {
	f, err := Parse("shop.txtar", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Steps[0].State.Snapshot
	b := s.Nodes.At("node-b")
	if b == nil || !b.Ready || b.Addr(true) != netip.MustParseAddr("10.90.0.12") || b.PodCIDRs[0].String() != "10.244.2.0/24" {
		t.Errorf("node-b: %+v", b)
	}
	web := s.Pods.At(model.N("default", "web-0"))
	if web.Node != "node-a" || web.Addrs[0].String() != "10.244.1.2" || web.Phase != "Running" || !web.Ready {
		t.Errorf("web-0: %+v", web)
	}
	if ips := s.Services.At(model.N("shop", "cart")).ClusterIPs; len(ips) != 1 || ips[0].String() != "10.96.0.1" {
		t.Errorf("ClusterIPs of cart: %v", ips)
	}
}

func TestAnObjectMadeAgainHasANewIdentity(t *testing.T) {
	again := strings.TrimSuffix(shop, "slices shop/cart => none\n") + "slices shop/cart => none\n-- then-3.yaml --\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: cart-1, namespace: shop, labels: {app: cart}}\n-- expect-3 --\npod web-0 -> tcp cart.shop:80 => refused\n"
	f, err := Parse("again.txtar", []byte(again))
	if err != nil {
		t.Fatal(err)
	}
	name := model.N("shop", "cart-1")
	if a, b := f.Steps[1].State.Snapshot.Pods.At(name), f.Steps[3].State.Snapshot.Pods.At(name); a.UID == b.UID {
		t.Errorf("UID is %s before and after", a.UID)
	}
}

func TestErrorsNameTheLineAndSuggest(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(shop, old, new, 1) }
	for _, c := range []struct{ name, text, want string }{
		{"unknown Pod", edit("pod web-0 -> tcp cart.shop:80 => pod", "pod web-1 -> tcp cart.shop:80 => pod"), "s.txtar:19: there is no Pod web-1 (did you mean web-0?)"},
		{"unknown field", edit("selector:", "selectr:"), `s.txtar:12: Service shop/cart: unknown field "selectr"`},
		{"unknown kind", edit("kind: Service", "kind: Servce"), "s.txtar:12: Servce shop/cart: podway reads no v1 Servce (did you mean Service?)"},
		{"unknown node", edit("nodeName: node-b", "nodeName: node-d"), "s.txtar:2: Pod shop/cart-1: spec.nodeName: there is no Node node-d (did you mean node-a?)"},
		{"unknown file", edit("-- expect --", "-- expects --"), "s.txtar:16: expects: unknown file (did you mean expect?)"},
		{"step out of order", edit("then-1.yaml", "then-2.yaml"), "the next step is then-1.yaml"},
		{"expectations of another step", edit("expect-1", "expect-2"), "after then-1.yaml the expectations are called expect-1"},
		{"unknown outcome", edit("=> refused", "=> refussed"), "(did you mean refused?)"},
		{"unknown level", edit("[model rules]", "[modle]"), "(did you mean model?)"},
		{"unknown question", edit("slices shop/cart", "slice shop/cart"), "(did you mean slices?)"},
		{"no arrow", edit("=> refused", "refused"), "want QUESTION => OUTCOME"},
		{"no comment", strings.TrimPrefix(shop, "A Service spreads over its ready Pods (KEP-752).\n"), "s.txtar:1: the file must begin with a comment"},
		{"nothing expected", shop[:strings.Index(shop, "-- expect --")], "nothing is expected"},
		{"object twice", edit("name: cart-1, namespace: shop, labels", "name: web-0, labels"), "Pod default/web-0 is there twice"},
		{"delete of nothing", edit("[Pod shop/cart-1]", "[Pod shop/cart-2]"), "delete: there is no Pod shop/cart-2 (did you mean Pod shop/cart-1?)"},
		{"a key twice", edit("kind: Service\n", "kind: Service\nkind: Service\n"), "s.txtar:12: "},
		{"bad port", edit("port: 80", "port: 0"), "spec.ports[0].port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("s.txtar", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestOutcomesPrintAsTheyAreWritten(t *testing.T) {
	f, err := Parse("shop.txtar", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"pod web-0 -> tcp cart.shop:80 => pod shop/cart-1 from pod default/web-0",
		"pod web-0 -> tcp cart.shop:80 => pod shop/cart-1 sticky",
		"outside 203.0.113.9 -> tcp node-a:22 => node node-a from outside 203.0.113.9",
		"pod web-0 -> tcp 203.0.113.9:80 => outside from node node-a",
		"pod web-0 -> udp 10.96.0.1:53 => no route",
		"dig A cart.shop.svc.cluster.local => A 10.96.0.1",
		"dig SRV _http._tcp.cart.shop.svc.cluster.local => SRV 0 100 80 cart.shop.svc.cluster.local",
		"dig A nothing.shop.svc.cluster.local => NXDOMAIN",
		"get https://shop.example/foo from outside => 200 pod shop/cart-1 cert shop.example",
		"get http://shop.example/foo from outside => 308 to https://shop.example/foo",
		"announce 10.90.0.200 => node node-b",
		"announce 10.90.0.200 => nobody",
		"slices shop/cart => 10.244.2.2:8080 ready",
		"trace pod web-0 -> http://cart.shop/ => ok",
		"trace pod web-0 -> tcp cart.shop:80 => PW-1202 at proxy",
	} {
		e, err := parseExpectation(line, f.Steps[0].State)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if _, right, _ := strings.Cut(line, " => "); e.Want.String() != right {
			t.Errorf("%s: printed as %s", line, e.Want)
		}
		if !e.Want.Matches(e.Want) {
			t.Errorf("%s: the outcome does not match itself", line)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte("x\n-- cluster.yaml --\n-- expect --\nslices a => 1.2.3.4:0 ready, pod x:1 y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f.txtar", data)
		if (s == nil) == (err == nil) {
			t.Fatalf("scenario %v and error %v", s, err)
		}
		if err == nil && len(s.Steps) == 0 {
			t.Fatal("no step and no error")
		}
	})
}

func TestTheProxysConfigurationIsRead(t *testing.T) {
	f, err := Parse("x", []byte(configured("nodePortAddresses: [10.90.0.0/24]\niptables: {masqueradeAll: true}\n")))
	if err != nil {
		t.Fatal(err)
	}
	for mode, all := range map[string]bool{"": true, "nftables": false, "iptables": true, "ipvs": true} {
		got := f.Steps[1].State.Settings(mode)
		if got.MasqueradeAll != all || got.LocalPods.Mode != 0 || !slices.Equal(got.NodePorts.In, []netip.Prefix{netip.MustParsePrefix("10.90.0.0/24")}) {
			t.Errorf("mode %q: %+v", mode, got)
		}
	}
	f, err = Parse("x", []byte(configured("ipvs: {scheduler: lc}\ndetectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: br0}\n")))
	if err != nil {
		t.Fatal(err)
	}
	st := f.Steps[0].State
	if a, b := st.Settings("ipvs"), st.Settings("nftables"); a.IPVS.Scheduler != "lc" || b.IPVS.Scheduler != "" || b.LocalPods.Interface != "br0" || b.NodePorts.All {
		t.Errorf("ipvs %+v\nnftables %+v", a, b)
	}
}

// configured is the shop with a configuration of the service proxy.
func configured(text string) string {
	return strings.Replace(shop, "-- cluster.yaml --\n", "-- proxy.yaml --\n"+text+"-- cluster.yaml --\n", 1)
}

func TestWhatIsWrongInTheProxysConfigurationIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"# a remark\nnodePortAddress: [all]\n": `x:4: proxy.yaml: unknown field "nodePortAddress"`,
		"ipvs:\n  schedular: rr\n":             `x:4: proxy.yaml: unknown field "ipvs.schedular"`,
		"conntrack: {min: 7}\n":                "x:3: proxy.yaml: conntrack.min: changes nothing in a scenario",
		"mode: ipvs\n":                         "x:3: proxy.yaml: mode: the mode is the run's (--proxy-mode)",
		"clusterCIDR: 10.0.0.0/8\nnodePortAddresses: [everywhere]\n": `x:4: proxy.yaml: nodePortAddresses[0]: "everywhere": want a range`,
		"kind: Pod\napiVersion: v1\n":                                "x:2: proxy.yaml: kind \"Pod\"",
		"nodePortAddresses: [all]\n---\nclusterCIDR: 10.0.0.0/8\n":   "x:2: proxy.yaml: 2 YAML documents",
		"iptables: {masqueradeAll: yess}\n":                          "proxy.yaml: ",
		"featureGates: {NFTablesProxyMode: true}\n":                  "x:3: proxy.yaml: featureGates.NFTablesProxyMode: changes nothing",
	} {
		_, err := Parse("x", []byte(configured(text)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	late := shop + "-- proxy.yaml --\nnodePortAddresses: [all]\n"
	if _, err := Parse("x", []byte(late)); err == nil || !strings.Contains(err.Error(), "must stand once, before cluster.yaml") {
		t.Errorf("after the cluster: %v", err)
	}
}

// Damaged files are errors or other scenarios, never a panic.
func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		data := []byte(shop)
		for range 1 + r.IntN(3) {
			at := r.IntN(len(data))
			switch r.IntN(4) {
			case 0:
				data = slices.Delete(data, at, min(len(data), at+1+r.IntN(30)))
			case 1:
				data[at] = byte(r.IntN(256))
			case 2:
				from := r.IntN(len(data))
				data = slices.Insert(data, at, slices.Clone(data[from:min(len(data), from+r.IntN(60))])...)
			default:
				data = slices.Insert(data, at, []byte(`=:[{}]-#" `)[r.IntN(10)])
			}
		}
		f, err := Parse("damaged.txtar", data)
		if (f == nil) == (err == nil) {
			t.Fatalf("%d: scenario %v and error %v for\n%s", i, f, err, data)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "damaged.txtar:") {
			t.Errorf("%d: an error without a line: %v", i, err)
		}
	}
}

func TestWhatHappensToNodesIsRead(t *testing.T) {
	f, err := Parse("x", []byte(shop+"-- then-3.yaml --\nrestart: [node-a]\n---\nfail: [node-b, node-a]\n"))
	if err != nil {
		t.Fatal(err)
	}
	st := f.Steps[3].State
	if !slices.Equal(st.Restart, []string{"node-a"}) || !slices.Equal(st.Failing, []string{"node-b", "node-a"}) {
		t.Errorf("restart %v, fail %v", st.Restart, st.Failing)
	}
	for text, want := range map[string]string{
		"restart: [node-x]":           "there is no node node-x",
		"restart: node-a":             "want a list of nodes",
		"fail: [node-a]\nkind: Pod\n": "must be the only key",
	} {
		if _, err := Parse("x", []byte(shop+"-- then-3.yaml --\n"+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestACorefileIsForTheDNSServersOfAllNodes(t *testing.T) {
	with := func(text string) []byte {
		return []byte(strings.Replace(shop, "-- cluster.yaml --\n", "-- Corefile --\n"+text+"-- cluster.yaml --\n", 1))
	}
	const good = ". {\n hosts none {\n  10.0.0.1 a.example\n }\n}\n"
	f, err := Parse("x", with(good))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Steps {
		if s.State.DNS != good {
			t.Errorf("step %s has %q", s.Name, s.State.DNS)
		}
	}
	_, err = Parse("x", with(". {\n forwrad . 1.1.1.1\n errors\n dnssec\n}\n"))
	for _, want := range []string{"x:4: Corefile:2: forwrad: no such plugin", "x:6: Corefile:4: dnssec: not supported"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	twice := strings.Replace(string(with(good)), "-- cluster.yaml --\n", "-- Corefile --\n"+good+"-- cluster.yaml --\n", 1)
	if _, err = Parse("x", []byte(twice)); err == nil || !strings.Contains(err.Error(), "Corefile: must stand once, before cluster.yaml") {
		t.Errorf("got %v", err)
	}
}
