package link

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func TestAddressesAreFollowedAsTheyComeAndGo(t *testing.T) {
	ns, k := inNamespace(t)
	for i, name := range []string{"pw0", "kube-ipvs0"} {
		if err := k.AddPair(Pair{Name: name, Peer: fmt.Sprintf("peer%d", i), PeerNS: ns}); err != nil {
			t.Fatal(err)
		}
	}
	a, err := Follow(ns, "kube-ipvs0")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got := fmt.Sprint(a.Now()); got != "[]" {
		t.Fatalf("at first %s", got)
	}
	for _, c := range []struct{ device, addr, want string }{
		{"kube-ipvs0", "10.96.0.1/32", "[192.0.2.1]"},
		{"pw0", "192.0.2.1/24", "[192.0.2.1]"},
		{"pw0", "2001:db8::1/64", "[192.0.2.1 2001:db8::1]"},
	} {
		if err := k.AddAddr(c.device, netip.MustParsePrefix(c.addr)); err != nil {
			t.Fatal(err)
		}
		if c.device == "kube-ipvs0" {
			continue
		}
		await(t, a, c.want)
	}
	if err := k.Delete("pw0"); err != nil {
		t.Fatal(err)
	}
	await(t, a, "[]")
}

func await(t *testing.T, a *Addresses, want string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); fmt.Sprint(a.Now()) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("addresses %v, want %s", a.Now(), want)
		}
	}
}
