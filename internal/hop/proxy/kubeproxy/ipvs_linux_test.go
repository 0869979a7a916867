package kubeproxy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/ipvs"
	"github.com/podway/podway/internal/hop/proxy/nft"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest/vm"
)

// write makes what kube-proxy's mode ipvs has for one Service with one endpoint, and a virtual server of another program.
func (h *host) writeIPVS() {
	h.t.Helper()
	cart := &kipvs.Server{Key: kipvs.Key{Addr: vip, Proto: kipvs.TCP}, Scheduler: "rr"}
	nodePort := &kipvs.Server{Key: kipvs.Key{Addr: netip.AddrPortFrom(h.node.Addrs[0], 30080), Proto: kipvs.TCP}, Scheduler: "rr", Persistence: 3 * time.Hour}
	other := &kipvs.Server{Key: others, Scheduler: "wlc"}
	to := netip.MustParseAddrPort("10.244.1.1:8080")
	h.ok(h.apply(
		kipvs.Op{Kind: kipvs.AddDevice}, kipvs.Op{Kind: kipvs.AddAddr, IP: vip.Addr()},
		kipvs.Op{Kind: kipvs.AddServer, Server: cart}, kipvs.Op{Kind: kipvs.AddDest, Server: cart, To: to, Weight: 1},
		kipvs.Op{Kind: kipvs.AddServer, Server: nodePort}, kipvs.Op{Kind: kipvs.AddDest, Server: nodePort, To: to, Weight: 1},
		kipvs.Op{Kind: kipvs.AddServer, Server: other},
	))
	h.ok(sysctl.Open(h.node.NS()).Set("net/ipv4/vs/conntrack", "1"))
}

// others is the virtual server of a program that is not kube-proxy.
var others = kipvs.Key{Addr: netip.MustParseAddrPort("192.0.2.7:80"), Proto: kipvs.TCP}

func (h *host) apply(ops ...kipvs.Op) error {
	k, err := kipvs.Open(h.node.NS(), ipvsDevice)
	h.ok(err)
	defer k.Close()
	return k.Apply(h.t.Context(), ops)
}

func (h *host) servers() *kipvs.State {
	h.t.Helper()
	k, err := kipvs.Open(h.node.NS(), ipvsDevice)
	h.ok(err)
	defer k.Close()
	s, err := k.Read(h.t.Context())
	h.ok(err)
	return s
}

func TestPodwayTakesOverFromModeIPVSAndBack(t *testing.T) {
	vm.Test(t, vm.Machine{Timeout: 4 * time.Minute}, func(t *testing.T) {
		t.Run("to nftables", func(t *testing.T) { takeOverToNFT(hostWithoutTools(t)) })
		t.Run("to podway's own", func(t *testing.T) { takeOverToIPVS(hostWithoutTools(t)) })
	})
}

func takeOverToNFT(h *host) {
	ctx := h.t.Context()
	h.writeIPVS()
	if !h.reached() {
		h.t.Fatal("kube-proxy's virtual server does not lead to the Pod")
	}
	before := h.servers().Text(ipvsDevice)
	kube := IPVS(h.node.NS(), h.t.TempDir())
	objects, err := kube.Objects(ctx)
	if err != nil || !slices.Equal(objects, []string{"device kube-ipvs0 with 1 addresses, 2 virtual servers"}) {
		h.t.Fatalf("found %q, %v", objects, err)
	}
	ours := nft.In(h.node.NS())
	h.takeOver(ours, kube)
	if left := h.servers(); left.Device || len(left.Servers) != 1 || left.Servers[others] == nil || !h.reached() {
		h.t.Errorf("the Service is reached: %v; left %s", h.reached(), left.Text(ipvsDevice))
	}
	back, err := kube.PutBack(ctx)
	h.ok(err)
	h.ok(ours.Remove(ctx))
	if after := h.servers().Text(ipvsDevice); !back || after != before || !h.reached() {
		h.t.Errorf("put back: %v, the Service is reached: %v; now\n%swas\n%s", back, h.reached(), after, before)
	}
	h.ok(kube.Remove(ctx))
	h.ok(kube.Forget(ctx))
	if back, err := kube.PutBack(ctx); back || err != nil {
		h.t.Errorf("what was forgotten came back: %v, %v", back, err)
	}
}

// takeOver applies a mode of podway's beside what kube-proxy has.
func (h *host) takeOver(ours proxy.Backend, kube foreign) {
	h.t.Helper()
	r, err := proxy.New(proxy.Options{Node: "node-a", Backend: ours, Others: []proxy.Backend{kube}, Dial: h.dial}).Apply(h.t.Context(), h.snapshot, model.Everything())
	h.ok(err)
	if len(r.Findings) > 0 {
		h.t.Fatalf("findings %+v", r.Findings)
	}
	if found, err := kube.Owns(h.t.Context()); found || err != nil {
		h.t.Errorf("afterwards kube-proxy's are in force: %v, %v", found, err)
	}
}

// In podway's own mode ipvs the device and the virtual servers stay, and are podway's then.
func takeOverToIPVS(h *host) {
	h.writeIPVS()
	kube, ours := IPVS(h.node.NS(), h.t.TempDir()), ipvs.In(h.node.NS(), nil)
	if mine, err := ours.Owns(h.t.Context()); mine || err != nil {
		h.t.Errorf("podway takes kube-proxy's for its own: %v, %v", mine, err)
	}
	h.takeOver(ours, kube)
	if objects, err := kube.Objects(h.t.Context()); len(objects) > 0 || err != nil || !h.reached() {
		h.t.Errorf("kube-proxy's: %s, %v; the Service is reached: %v", strings.Join(objects, "; "), err, h.reached())
	}
	h.ok(ours.Remove(h.t.Context()))
	if left := h.servers(); left.Device || left.Servers[others] == nil {
		h.t.Errorf("left: %s", left.Text(ipvsDevice))
	}
}
