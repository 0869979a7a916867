package arp

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/nettest"
)

// station is the outside host with what it believes about addresses.
type station struct {
	t    *testing.T
	host *nettest.Host
}

// believes is the MAC address in the host's neighbour table, "" for none.
func (s station) believes(a netip.Addr) string {
	s.t.Helper()
	list, err := s.host.Netlink().NeighList(0, 2)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range list {
		if n.IP.Equal(net.IP(a.AsSlice())) && len(n.HardwareAddr) == 6 && n.State&0xde != 0 { // any state but INCOMPLETE, FAILED
			return n.HardwareAddr.String()
		}
	}
	return ""
}

// resolve sends a datagram and waits for the address to be known.
func (s station) resolve(a netip.Addr, wait time.Duration) string {
	s.t.Helper()
	err := s.host.Do(func() error {
		c, err := net.Dial("udp", netip.AddrPortFrom(a, 9).String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("x"))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if m := s.believes(a); m != "" {
			return m
		}
	}
	return ""
}

func macOf(t *testing.T, h *nettest.Host) (m string) {
	t.Helper()
	if err := h.Do(func() error {
		i, err := net.InterfaceByName("eth0")
		if err == nil {
			m = i.HardwareAddr.String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTheOutsideResolvesAnAddressToItsOwnerAndFollowsItWithin100ms(t *testing.T) {
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	a, err := w.AddNode("node-a", 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.AddNode("node-b", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	ra, rb := New(Options{NS: a.NS(), Log: quiet}), New(Options{NS: b.NS(), Log: quiet})
	defer ra.Close()
	defer rb.Close()
	out, addr := station{t, w.Outside()}, netip.MustParseAddr("10.90.0.200")
	macA, macB := macOf(t, a), macOf(t, b)

	if got := out.resolve(addr, 200*time.Millisecond); got != "" {
		t.Fatalf("nobody announces %s, and it resolves to %s", addr, got)
	}
	if err := ra.Announce(t.Context(), claims(addr.String())); err != nil {
		t.Fatal(err)
	}
	if got := out.resolve(addr, 2*time.Second); got != macA {
		t.Fatalf("%s resolves to %q, node-a is %s", addr, got, macA)
	}
	for range 4 { // back and forth
		macA, macB, ra, rb = macB, macA, rb, ra
		start := time.Now()
		if err := rb.Announce(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := ra.Announce(t.Context(), claims(addr.String())); err != nil {
			t.Fatal(err)
		}
		for out.believes(addr) != macA {
			if time.Since(start) > 100*time.Millisecond {
				t.Fatalf("after %v the outside believes %q, the owner is %s", time.Since(start), out.believes(addr), macA)
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("moved after %v", time.Since(start))
	}
	if err := ra.Announce(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	fresh := netip.MustParseAddr("10.90.0.201")
	if got := out.resolve(fresh, 200*time.Millisecond); got != "" {
		t.Errorf("an address that nobody announces resolves to %s", got)
	}
}

func TestADeviceThatWasDownIsAnnouncedOnWhenItIsUpAgain(t *testing.T) {
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	n, err := w.AddNode("node-a", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := New(Options{NS: n.NS(), Log: slog.New(slog.DiscardHandler)})
	defer r.Close()
	addr := "10.90.0.200"
	if err := r.Announce(t.Context(), claims(addr)); err != nil {
		t.Fatal(err)
	}
	eth, err := n.Netlink().LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, on int) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); len(r.Status()[0].Interfaces) != on; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, r.Status())
			}
		}
	}
	until("at first", 1)
	if err := n.Netlink().LinkSetDown(eth); err != nil {
		t.Fatal(err)
	}
	until("down", 0)
	if err := n.Netlink().LinkSetUp(eth); err != nil {
		t.Fatal(err)
	}
	until("up", 1)
	if got, want := (station{t, w.Outside()}).resolve(netip.MustParseAddr(addr), 2*time.Second), macOf(t, n); got != want {
		t.Errorf("resolves to %q, want %s", got, want)
	}
}
