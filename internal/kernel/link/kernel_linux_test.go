package link

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/podway/podway/internal/kernel/netns"
)

func tunnel() Link {
	return Link{
		Name: "pwtest0", Kind: KindVXLAN, MAC: MAC{2, 1, 2, 3, 4, 5}, MTU: 1400, Up: true, Alias: "a tunnel",
		Addrs: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/32"), netip.MustParsePrefix("fd09::1/128")},
		VXLAN: &VXLAN{VNI: 77, Port: 4999, Local: netip.MustParseAddr("10.8.0.1")},
	}
}

func inNamespace(t *testing.T) (*netns.NS, *Kernel) {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	k, err := Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close(); ns.Close() })
	return ns, k
}

// doors runs the test against the kernel and against the fake, which must not differ.
func doors(t *testing.T, test func(t *testing.T, d Door)) {
	t.Run("kernel", func(t *testing.T) {
		_, k := inNamespace(t)
		test(t, k)
	})
	t.Run("fake", func(t *testing.T) { test(t, NewFake(Link{Name: "lo", NoARP: true, MTU: 65536})) })
}

func get(t *testing.T, d Door, name string) (Link, bool) {
	t.Helper()
	l, ok, err := d.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return l, ok
}

func TestAPutTunnelIsReadBackAsItWasWanted(t *testing.T) {
	doors(t, func(t *testing.T, d Door) {
		want := tunnel()
		for range 2 { // the second time nothing is left to do
			if err := d.Put(want); err != nil {
				t.Fatal(err)
			}
			got, ok := get(t, d, want.Name)
			if !ok || !got.Equal(want) {
				t.Fatalf("got %v, %s\nwant %s", ok, got, want)
			}
		}
		all, err := d.List()
		if err != nil || len(all) != 2 || !all[1].Equal(want) || all[0].Name != "lo" || !all[0].NoARP {
			t.Fatalf("list: %v, %v", all, err)
		}
	})
}

func TestATunnelIsMendedInPlaceWhereThatIsPossible(t *testing.T) {
	inPlace := map[string]func(*Link){
		"mtu":       func(l *Link) { l.MTU = 1300 },
		"addresses": func(l *Link) { l.Addrs = []netip.Prefix{netip.MustParsePrefix("10.9.0.2/32")} },
		"alias":     func(l *Link) { l.Alias = "other" },
	}
	anew := map[string]func(*Link){
		"VNI":   func(l *Link) { l.VXLAN = &VXLAN{VNI: 78, Port: 4999, Local: l.VXLAN.Local} },
		"port":  func(l *Link) { l.VXLAN = &VXLAN{VNI: 77, Port: 4998, Local: l.VXLAN.Local} },
		"local": func(l *Link) { l.VXLAN = &VXLAN{VNI: 77, Port: 4999, Local: netip.MustParseAddr("fd08::1")} },
		"mac":   func(l *Link) { l.MAC[5]++ },
	}
	for name, change := range inPlace {
		t.Run(name, func(t *testing.T) { doors(t, func(t *testing.T, d Door) { changed(t, d, change, true) }) })
	}
	for name, change := range anew {
		t.Run(name, func(t *testing.T) { doors(t, func(t *testing.T, d Door) { changed(t, d, change, false) }) })
	}
}

func changed(t *testing.T, d Door, change func(*Link), sameDevice bool) {
	t.Helper()
	if err := d.Put(tunnel()); err != nil {
		t.Fatal(err)
	}
	before, _ := get(t, d, "pwtest0")
	want := tunnel()
	change(&want)
	if err := d.Put(want); err != nil {
		t.Fatal(err)
	}
	after, _ := get(t, d, "pwtest0")
	if diff := cmp.Diff(want, after, cmpopts.IgnoreFields(Link{}, "Index"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if _, fake := d.(*Fake); !fake && sameDevice != (before.Index == after.Index) {
		t.Errorf("index %d, then %d; in place: %t", before.Index, after.Index, sameDevice)
	}
}

func TestAChecksumOffloadAndADownThatSomebodySwitchedAreMended(t *testing.T) {
	_, k := inNamespace(t)
	if err := k.Put(tunnel()); err != nil {
		t.Fatal(err)
	}
	if l, _ := get(t, k, "pwtest0"); l.VXLAN.TxChecksum {
		t.Fatal("a new tunnel leaves checksums to the hardware")
	}
	if err := k.setTxChecksum("pwtest0", true); err != nil {
		t.Fatal(err)
	}
	if l, _ := get(t, k, "pwtest0"); !l.VXLAN.TxChecksum {
		t.Fatal("not read back")
	}
	if err := k.SetUp("pwtest0", false); err != nil { // takes the IPv6 addresses with it
		t.Fatal(err)
	}
	if err := k.Put(tunnel()); err != nil {
		t.Fatal(err)
	}
	if l, _ := get(t, k, "pwtest0"); !l.Equal(tunnel()) {
		t.Fatalf("not mended: %s", l)
	}
}

func TestADeviceOfSomebodyElseIsLeftAlone(t *testing.T) {
	_, k := inNamespace(t)
	if err := k.AddPair(Pair{Name: "pwtest0", Peer: "pwtest1", MTU: 1500}); err != nil {
		t.Fatal(err)
	}
	if err := k.Put(tunnel()); !errors.Is(err, ErrForeign) {
		t.Fatalf("got %v", err)
	}
	if l, ok := get(t, k, "pwtest0"); !ok || l.Kind != KindVeth {
		t.Fatalf("the veth became %v", l)
	}
	if err := NewFake(Link{Name: "pwtest0", Kind: KindVeth}).Put(tunnel()); !errors.Is(err, ErrForeign) {
		t.Fatalf("fake: got %v", err)
	}
}

func TestDeleteIsIdempotent(t *testing.T) {
	doors(t, func(t *testing.T, d Door) {
		if err := d.Put(tunnel()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := d.Delete("pwtest0"); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := get(t, d, "pwtest0"); ok {
			t.Fatal("still there")
		}
	})
}

func TestAPairHasItsPeerInTheOtherNamespaceFromTheStart(t *testing.T) {
	_, k := inNamespace(t)
	ns, peer := inNamespace(t)
	p := Pair{Name: "pwtest0", Peer: "eth0", MTU: 1400, MAC: MAC{2, 0, 0, 0, 0, 1}, PeerMAC: MAC{2, 0, 0, 0, 0, 2}, PeerNS: ns}
	if err := k.AddPair(p); err != nil {
		t.Fatal(err)
	}
	here, _ := get(t, k, "pwtest0")
	there, ok := get(t, peer, "eth0")
	if here.MAC != p.MAC || !ok || there.MAC != p.PeerMAC || here.MTU != 1400 || there.MTU != 1400 {
		t.Fatalf("here %v\nthere %v", here, there)
	}
	if _, ok := get(t, k, "eth0"); ok {
		t.Fatal("the peer is here too")
	}
}
