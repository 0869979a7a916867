package packet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"

	"github.com/podway/podway/internal/kernel/netns"
)

// pair is two namespaces with a cable between their devices "eth0".
func pair(t *testing.T) (a, b *netns.NS, ha, hb *netlink.Handle) {
	t.Helper()
	var ns [2]*netns.NS
	var h [2]*netlink.Handle
	for i := range ns {
		n, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		if h[i], err = netlink.NewHandleAt(vnetns.NsHandle(n.Fd())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h[i].Close)
		ns[i] = n
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns[1].Fd())}
	if err := h[0].LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	for i := range h {
		l, err := h[i].LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 8, 0, byte(i+1)), Mask: net.CIDRMask(24, 32)}}
		if err := errors.Join(h[i].AddrAdd(l, addr), h[i].LinkSetUp(l)); err != nil {
			t.Fatal(err)
		}
	}
	return ns[0], ns[1], h[0], h[1]
}

func device(t *testing.T, ns *netns.NS, name string) Interface {
	t.Helper()
	all, err := Interfaces(ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("no %s in %+v", name, all)
	return Interface{}
}

func TestAFrameArrivesWithItsSenderAndCloseEndsARead(t *testing.T) {
	const experimental = 0x88b5
	a, b, _, _ := pair(t)
	for i := 0; i < 100 && !(device(t, a, "eth0").Up && device(t, b, "eth0").Up); i++ {
		time.Sleep(10 * time.Millisecond) // the carrier comes a moment later
	}
	da, db := device(t, a, "eth0"), device(t, b, "eth0")
	if da.MAC == (MAC{}) || !da.Up || da.NoARP || len(da.Addrs) == 0 || da.Addrs[0] != netip.MustParsePrefix("10.8.0.1/24") {
		t.Fatalf("device %+v", da)
	}
	if lo := device(t, a, "lo"); !lo.NoARP || lo.Up {
		t.Errorf("loopback %+v", lo)
	}
	ca, err := Listen(a, da.Index, experimental)
	if err != nil {
		t.Fatal(err)
	}
	defer ca.Close()
	cb, err := Listen(b, db.Index, experimental)
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Write(db.MAC, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	f, err := cb.Read()
	if err != nil || string(f.Payload[:5]) != "hello" || f.From != da.MAC || f.Outgoing {
		t.Fatalf("got %q from %v, %v", f.Payload, f.From, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := cb.Read()
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	cb.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
	case <-time.After(2 * time.Second):
		t.Error("Close does not end a Read")
	}
}

func TestChangesOfDevicesAndAddressesAreTold(t *testing.T) {
	a, _, ha, _ := pair(t)
	ctx, cancel := context.WithCancel(context.Background())
	ch, err := Changes(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := ha.LinkByName("eth0")
	for what, do := range map[string]func() error{
		"an address": func() error {
			return ha.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 9, 0, 1), Mask: net.CIDRMask(24, 32)}})
		},
		"down": func() error { return ha.LinkSetDown(l) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		select {
		case _, ok := <-ch:
			if !ok {
				t.Fatal("closed")
			}
		case <-time.After(2 * time.Second):
			t.Fatalf("no word of %s", what)
		}
	}
	if device(t, a, "eth0").Up {
		t.Error("a device that is down counts as up")
	}
	cancel()
	for deadline := time.After(2 * time.Second); ; {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-deadline:
			t.Fatal("the channel stays open after its context ended")
		}
	}
}
