package conntrack

import (
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/nettest"
)

// tracked is a table that makes the kernel track connections in a namespace and translate one port.
func tracked() *nft.Table {
	t := nft.NewTable(nft.IPv4, "pw-conntrack-test")
	to := netip.MustParseAddrPort("10.244.1.5:5353")
	return t.AddChain(&nft.Chain{Name: "output", Base: &nft.Base{Type: "nat", Hook: nft.Output, Priority: nft.PriorityDstNAT}, Rules: []nft.Rule{
		nft.R(nft.DstIn(netip.MustParsePrefix("10.96.0.10/32")),
			nft.Immediate{Dst: 0, Data: nft.Key{}.Addr(to.Addr()).String()}, nft.Immediate{Dst: 1, Data: nft.Key{}.Port(to.Port()).String()},
			nft.NAT{Family: nft.IPv4, AddrReg: 0, HasPort: true, PortReg: 1}),
	}})
}

func TestEntriesAreListedAndOnlyStaleOnesDeleted(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	node, err := w.AddNode("node-a", 0)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := w.AddPod(node, "pod", netip.MustParseAddr("10.244.1.5"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pod.Serve("dns", nettest.Port{Proto: "udp", Number: 5353}); err != nil {
		t.Fatal(err)
	}
	k, err := nft.Open(node.NS())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Apply(t.Context(), nft.Create(tracked())); err != nil {
		t.Fatal(err)
	}
	vip, direct := netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.244.1.5:5353")
	for _, dst := range []netip.AddrPort{vip, direct} {
		if r := node.Connect(t.Context(), nettest.Dial{Proto: "udp", Dst: dst}); r.Who != "dns" {
			t.Fatalf("%s: %+v", dst, r)
		}
	}
	c, err := Open(node.NS())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	es, err := c.List(t.Context(), UDP)
	if err != nil {
		t.Fatal(err)
	}
	if got := find(es, vip); got == nil || got.AnswerSrc != direct || !got.DstTranslated || !got.SeenAnswer {
		t.Fatalf("the translated connection is not listed as such: %+v", es)
	}
	n, err := c.Delete(t.Context(), UDP, func(e Entry) bool { return e.Dst == vip })
	if err != nil || n != 1 {
		t.Fatalf("deleted %d, %v; want 1", n, err)
	}
	es, err = c.List(t.Context(), UDP)
	if err != nil || find(es, vip) != nil || find(es, direct) == nil {
		t.Fatalf("after deleting one of two: %+v, %v", es, err)
	}
}

func find(es []Entry, dst netip.AddrPort) *Entry {
	for i := range es {
		if es[i].Dst == dst {
			return &es[i]
		}
	}
	return nil
}
