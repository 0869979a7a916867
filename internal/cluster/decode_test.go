package cluster

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/model"
)

func TestAServiceIsConvertedWithItsDefaults(t *testing.T) {
	objs, err := Decode([]byte(`
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop, labels: {service.kubernetes.io/service-proxy-name: other}}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.7
  selector: {app: cart}
  sessionAffinity: ClientIP
  externalTrafficPolicy: Local
  loadBalancerSourceRanges: [" 10.0.0.1/8"]
  ports: [{port: 80, targetPort: web, nodePort: 30080}, {name: dns, port: 53, protocol: UDP}]
status:
  loadBalancer: {ingress: [{ip: 10.90.0.200, ipMode: VIP}, {ip: 10.90.0.201, ipMode: Proxy}, {hostname: x.example}]}
  conditions: [{type: podway.io/AddressAllocated, status: "False", reason: AddressTaken, message: 10.90.0.202 is taken, lastTransitionTime: 2026-01-01T00:00:00Z}]
`))
	if err != nil {
		t.Fatal(err)
	}
	ip := netip.MustParseAddr
	want := &model.Service{Name: model.N("shop", "cart"), Type: model.LoadBalancer, ClusterIPs: []netip.Addr{ip("10.96.0.7")},
		Labels: map[string]string{"service.kubernetes.io/service-proxy-name": "other"}, ProxyName: "other",
		IPFamilies: []string{"IPv4"}, Selector: map[string]string{"app": "cart"}, AffinityTimeout: 3 * time.Hour,
		ExternalPolicyLocal: true, SourceRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, AllocateNodePorts: true,
		Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80, NodePort: 30080, TargetPort: model.PortRef{Name: "web"}},
			{Name: "dns", Protocol: model.UDP, Port: 53, TargetPort: model.PortRef{Number: 53}}},
		LoadBalancerIPs: []model.LoadBalancerIP{{Addr: ip("10.90.0.200")}, {Addr: ip("10.90.0.201"), Proxy: true}},
		NoAddress:       "10.90.0.202 is taken",
	}
	opt := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if d := cmp.Diff([]any{want}, objs, opt, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

func TestABadDocumentIsNamedAndTheOthersAreRead(t *testing.T) {
	for _, c := range []struct{ name, doc, want string }{
		{"an unknown field", "kind: Service\napiVersion: v1\nmetadata: {name: bad}\nspec: {prots: []}", `Service bad: .*unknown field "spec.prots"`},
		{"a port out of range", "kind: Service\napiVersion: v1\nmetadata: {name: bad}\nspec: {ports: [{port: 70000}]}", `Service default/bad: spec.ports[0].port: 70000 is no port`},
		{"a range that is none", "kind: Service\napiVersion: v1\nmetadata: {name: bad}\nspec: {loadBalancerSourceRanges: [10.0.0.0/33]}", `spec.loadBalancerSourceRanges[0]: "10.0.0.0/33" is no address range`},
		{"a Node's range that is none", "kind: Node\napiVersion: v1\nmetadata: {name: bad}\nspec: {podCIDRs: [10.244.0.0]}", `Node bad: spec.podCIDRs[0]: "10.244.0.0" is no address range`},
		{"an address that is none", "kind: Service\napiVersion: v1\nmetadata: {name: bad}\nspec: {clusterIP: ten}", `spec.clusterIP: "ten" is no IP address`},
		{"no name", "kind: Pod\napiVersion: v1\nmetadata: {}", "metadata.name is missing"},
		{"no object", "hello: world", "not a Kubernetes object"},
		{"no YAML", "a: [", "document 2: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := "kind: Service\napiVersion: v1\nmetadata: {name: good}\n"
			objs, err := Decode([]byte(good + "---\n" + c.doc + "\n---\n" + good))
			if len(objs) != 2 {
				t.Errorf("got %d good objects, want 2", len(objs))
			}
			if want, _, _ := strings.Cut(c.want, ".*"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "document 2") {
				t.Errorf("got error %v, want it to say %q of document 2", err, c.want)
			}
		})
	}
}

func TestPoolEntriesAreCIDRsRangesAndAddresses(t *testing.T) {
	for s, want := range map[string]string{
		"10.0.0.0/30": "10.0.0.0-10.0.0.3", "10.0.0.5": "10.0.0.5-10.0.0.5", "10.0.0.1-10.0.0.9": "10.0.0.1-10.0.0.9",
		"fd00::/126": "fd00::-fd00::3", "10.0.0.9-10.0.0.1": "", "x": "", "10.0.0.1-fd00::1": "",
	} {
		r, ok := addrRange(s)
		if got := r.From.String() + "-" + r.To.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %s %v, want %q", s, got, ok, want)
		}
	}
}
