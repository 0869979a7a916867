package dns

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/model"
)

func TestItServesInAnotherNetworkNamespace(t *testing.T) {
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	listen := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("0.0.0.0:5353")}
	h := newHop(t, Options{Listen: listen, In: ns.Do, NoUpstream: true})
	if _, err := h.Apply(t.Context(), shop(), model.Everything()); err != nil {
		t.Fatal(err) // loopback is down, but its address can be bound in any case
	}
	if v, err := h.Programmed(t.Context(), fromWeb("cart.shop", "A")); err != nil || v.Action != flow.Dropped || v.Findings[0].Code != flow.DNSServerDown {
		t.Errorf("loopback is down, so nothing can answer: %+v, %v", v, err)
	}
	if err := ns.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	}); err != nil {
		t.Fatal(err)
	}
	if v, err := h.Programmed(t.Context(), fromWeb("cart.shop", "A")); err != nil || v.String() != "answer NOERROR [A 10.96.0.7]" {
		t.Errorf("got %+v, %v", v, err)
	}
}
