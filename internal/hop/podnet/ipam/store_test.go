package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	v4 = netip.MustParsePrefix("10.244.1.0/29") // Pods may have .2 to .6
	v6 = netip.MustParsePrefix("fd44:1::/64")
)

func of(container string) Reservation {
	return Reservation{Container: container, IfName: "eth0", Network: "podway", Netns: "/run/netns/" + container, Veth: "pw" + container}
}

func reserve(t *testing.T, s *Store, container string, ranges ...netip.Prefix) []string {
	t.Helper()
	r, err := s.Reserve(of(container), ranges, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range r.Addrs {
		out = append(out, a.String())
	}
	return out
}

func TestAddressesGoRoundSoThatNoneIsUsedAgainAtOnce(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "not", "yet"))
	var got []string
	for i := range 8 {
		c := fmt.Sprint(i)
		got = append(got, reserve(t, s, c, v4)...)
		if err := s.Release(c, "eth0"); err != nil {
			t.Fatal(err)
		}
	}
	want := "10.244.1.2 10.244.1.3 10.244.1.4 10.244.1.5 10.244.1.6 10.244.1.2 10.244.1.3 10.244.1.4"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestBothFamiliesAreReservedTogetherAndReadBack(t *testing.T) {
	s := Open(t.TempDir())
	if got := fmt.Sprint(reserve(t, s, "a", v4, v6)); got != "[10.244.1.2 fd44:1::2]" {
		t.Fatal(got)
	}
	r, ok, err := s.Find("a", "eth0")
	if err != nil || !ok || fmt.Sprint(r.Addrs) != "[10.244.1.2 fd44:1::2]" || r.Veth != "pwa" || r.Network != "podway" {
		t.Fatalf("%+v %v %v", r, ok, err)
	}
	for range 2 {
		if err := s.Release("a", "eth0"); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Fatalf("left: %v, %v", all, err)
	}
}

func TestAFullRangeIsAClearErrorAndReservesNothing(t *testing.T) {
	s := Open(t.TempDir())
	for i := range 5 {
		reserve(t, s, fmt.Sprint(i), v4)
	}
	_, err := s.Reserve(of("late"), []netip.Prefix{v6, v4}, nil)
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "10.244.1.0/29") {
		t.Fatalf("got %v", err)
	}
	if all, _ := s.List(); len(all) != 5 {
		t.Fatalf("the IPv6 half stayed: %v", all)
	}
	r, err := s.Reserve(of("late"), []netip.Prefix{v4}, func(r Reservation) bool { return r.Container == "3" })
	if err != nil || r.Addrs[0].String() != "10.244.1.5" {
		t.Fatalf("the dead one's address was not taken: %v, %v", r.Addrs, err)
	}
	for _, p := range []string{"10.9.1.0/31", "10.9.1.0/32", "10.9.1.0/30", "fd44::/127", "fd44::/128"} {
		_, err := s.Reserve(of("small"), []netip.Prefix{netip.MustParsePrefix(p)}, nil)
		if want := p != "10.9.1.0/30"; errors.Is(err, ErrFull) != want {
			t.Errorf("%s: %v", p, err)
		}
		s.Release("small", "eth0")
	}
}

func TestAnOlderReservationOfTheSameInterfaceGoes(t *testing.T) {
	s := Open(t.TempDir())
	reserve(t, s, "a", v4)
	reserve(t, s, "a", v4, v6)
	all, err := s.List()
	if err != nil || len(all) != 1 || fmt.Sprint(all[0].Addrs) != "[10.244.1.3 fd44:1::2]" {
		t.Fatalf("%v, %v", all, err)
	}
}

func TestAFileThatCannotBeUnderstoodKeepsItsAddressUntilItIsDropped(t *testing.T) {
	s := Open(t.TempDir())
	for _, content := range []string{"", "{", "{}"} {
		if err := os.WriteFile(s.path("10.244.1.2"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := reserve(t, s, "a", v4)[0]; got == "10.244.1.2" {
			t.Fatalf("%q: given twice", content)
		}
		if err := s.Drop(func(r Reservation) bool { return r.Container == "" }); err != nil {
			t.Fatal(err)
		}
		if all, _ := s.List(); len(all) != 1 || all[0].Container != "a" {
			t.Fatalf("%q: left %v", content, all)
		}
	}
}

func TestParallelReservationsNeverShareAnAddress(t *testing.T) {
	dir, seen := t.TempDir(), map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c := fmt.Sprint(i)
			r, err := Open(dir).Reserve(of(c), []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), v6}, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			for _, a := range r.Addrs {
				if other, ok := seen[a.String()]; ok {
					t.Errorf("%s has the address of %s: %s", c, other, a)
				}
				seen[a.String()] = c
			}
		})
	}
	wg.Wait()
	if len(seen) != 200 {
		t.Errorf("%d addresses", len(seen))
	}
}
