package kubeproxy

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

var vip = netip.MustParseAddrPort("10.96.0.7:80")

// As kube-proxy 1.37 writes them, for one Service with one endpoint.
const (
	ofNFTables = `table ip kube-proxy {
	comment "rules for kube-proxy"
	map service-ips {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.96.0.7 . tcp . 80 : goto service-ULMVA6XW-shop-web-tcp-http }
	}
	set cluster-ips { type ipv4_addr; elements = { 10.96.0.7 } }
	chain service-ULMVA6XW-shop-web-tcp-http {
		ip daddr 10.96.0.7 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade
		meta l4proto tcp dnat to 10.244.1.1:8080
	}
	chain mark-for-masquerade { meta mark set meta mark or 0x4000; }
	chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
	chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }
	chain nat-output { type nat hook output priority -100; policy accept; jump services; }
}
`
	ofIPTables = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
:KUBE-SEP-ABCDEFGHIJKLMNOP - [0:0]
:OTHER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j OTHER
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-SERVICES -d 10.96.0.7/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-ABCDEFGHIJKLMNOP
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-ABCDEFGHIJKLMNOP -m comment --comment "shop/web:http -> 10.244.1.1:8080" -j KUBE-SEP-ABCDEFGHIJKLMNOP
-A KUBE-SEP-ABCDEFGHIJKLMNOP -s 10.244.1.1/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-ABCDEFGHIJKLMNOP -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.1.1:8080
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A INPUT -j KUBE-FIREWALL
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP
COMMIT
`
)

type foreign interface {
	proxy.Backend
	proxy.Owner
	Objects(context.Context) ([]string, error)
	PutBack(context.Context) (bool, error)
	Forget(context.Context) error
}

// host is a node with one Pod behind a Service.
type host struct {
	t            *testing.T
	node, client *nettest.Host
	snapshot     *model.Snapshot
}

func newHost(t *testing.T) *host {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.NFT, nettest.IPTables)
	return hostWithoutTools(t)
}

func hostWithoutTools(t *testing.T) *host {
	t.Helper()
	w, err := nettest.New()
	h := &host{t: t}
	h.ok(err)
	t.Cleanup(func() { w.Close() })
	h.node, err = w.AddNode("node-a", 0)
	h.ok(err)
	pod, err := w.AddPod(h.node, "a1", netip.MustParseAddr("10.244.1.1"))
	h.ok(err)
	_, err = pod.Serve("a1", nettest.Port{Proto: "tcp", Number: 8080})
	h.ok(err)
	h.client, err = w.AddPod(h.node, "client", netip.MustParseAddr("10.244.1.9"))
	h.ok(err)
	b := model.NewBuilder(nil)
	b.Put(&model.Node{Name: "node-a", Ready: true, Addrs: h.node.Addrs, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}})
	b.Put(&model.Service{Name: model.N("shop", "web"), ClusterIPs: []netip.Addr{vip.Addr()}, Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80}}})
	b.Put(&model.EndpointSlice{Name: model.N("shop", "web-1"), Service: model.N("shop", "web"), AddressType: "IPv4",
		Ports:     []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}},
		Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("10.244.1.1"), Ready: true, Serving: true, Node: "node-a"}}})
	h.snapshot = b.Snapshot(time.Now())
	return h
}

func (h *host) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// run runs a tool on the node with input and returns what it prints.
func (h *host) run(input string, argv ...string) string {
	h.t.Helper()
	var out bytes.Buffer
	err := h.node.Do(func() error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
		return cmd.Run()
	})
	if err != nil {
		h.t.Fatalf("%s: %v: %s", argv, err, out.String())
	}
	return out.String()
}

func (h *host) reached() bool {
	return h.client.Connect(h.t.Context(), nettest.Dial{Proto: "tcp", Dst: vip, Timeout: 3 * time.Second}).Who == "a1"
}

func (h *host) dial(ctx context.Context, to netip.AddrPort) error {
	return h.node.Do(func() error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
		if err == nil {
			c.Close()
		}
		return err
	})
}

func TestPodwayTakesOverFromKubeProxyAndBack(t *testing.T) {
	for name, c := range map[string]struct {
		write  func(*host)
		of     func(*host) foreign
		object string
		state  func(*host) string // of the rules, without counters
	}{
		"nftables": {func(h *host) { h.run(ofNFTables, "nft", "-f", "-") }, func(h *host) foreign { return NFTables(h.node.NS()) },
			"nftables table ip kube-proxy, in force", func(h *host) string { return h.run("", "nft", "list", "table", "ip", "kube-proxy") }},
		"iptables": {func(h *host) { h.run(ofIPTables, "iptables-restore", "--noflush") }, func(h *host) foreign { return IPTables(h.node.NS(), h.t.TempDir()) },
			"iptables table nat: 7 chains, 3 jumps to them", func(h *host) string {
				var lines []string
				for _, l := range strings.Split(h.run("", "iptables-save"), "\n") {
					if strings.HasPrefix(l, "-A") || strings.HasPrefix(l, "*") {
						lines = append(lines, l)
					}
				}
				return strings.Join(lines, "\n")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			c.write(h)
			if !h.reached() {
				t.Fatal("kube-proxy's rules do not lead to the Pod")
			}
			before := c.state(h)
			kube := c.of(h)
			if objects, err := kube.Objects(t.Context()); err != nil || !strings.Contains(strings.Join(objects, "\n"), c.object) {
				t.Fatalf("found %q, %v", objects, err)
			}
			ours := nft.In(h.node.NS())
			r, err := proxy.New(proxy.Options{Node: "node-a", Backend: ours, Others: []proxy.Backend{kube}, Dial: h.dial}).Apply(t.Context(), h.snapshot, model.Everything())
			h.ok(err)
			if len(r.Findings) > 0 {
				t.Fatalf("findings %+v", r.Findings)
			}
			if found, err := kube.Owns(t.Context()); found || err != nil || !h.reached() {
				t.Errorf("afterwards kube-proxy's rules are in force: %v, %v; the Service is reached: %v", found, err, h.reached())
			}
			if save := h.run("", "iptables-save"); name == "iptables" && (!strings.Contains(save, "-A OUTPUT -j OTHER") || !strings.Contains(save, "KUBE-FIREWALL") ||
				!strings.Contains(save, "KUBE-KUBELET-CANARY") || strings.Contains(save, "KUBE-SERVICES")) {
				t.Errorf("what is others' is gone, or something is left:\n%s", save)
			}
			back, err := kube.PutBack(t.Context())
			h.ok(err)
			h.ok(ours.Remove(t.Context()))
			if !back || !h.reached() {
				t.Errorf("put back: %v, the Service is reached: %v", back, h.reached())
			}
			if after := c.state(h); after != before {
				t.Errorf("the rules are not what they were:\n%s\nwere\n%s", after, before)
			}
			h.ok(kube.Remove(t.Context()))
			h.ok(kube.Forget(t.Context()))
			if back, err := kube.PutBack(t.Context()); back || err != nil {
				t.Errorf("what was forgotten came back: %v, %v", back, err)
			}
		})
	}
}

func TestPodwaysOwnChainsAreNotKubeProxys(t *testing.T) {
	h := newHost(t)
	h.run("*filter\n:KUBE-CLUSTER-IPS - [0:0]\n:KUBE-SERVICES - [0:0]\nCOMMIT\n", "iptables-restore", "--noflush")
	if found, err := IPTables(h.node.NS(), t.TempDir()).Owns(t.Context()); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}
