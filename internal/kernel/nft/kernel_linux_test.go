package nft

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/kernel/netns"
)

// host opens a Conn in a network namespace of its own; it needs root. (nettest.Need cannot be asked: it uses this package.)
func host(t *testing.T) (*Conn, *netns.NS) {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	c, err := Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, ns
}

func TestAnyTableBecomesAnyOtherInTheKernel(t *testing.T) {
	c, _ := host(t)
	anyToAny(t, c)
}

func TestTheKernelRefuses(t *testing.T) {
	c, _ := host(t)
	refusals(t, c)
}

func TestAReadSeesNothingOfOtherTables(t *testing.T) {
	c, _ := host(t)
	other := sample()
	other.Name = "somebody-else"
	ctx := context.Background()
	if err := c.Apply(ctx, Create(other)); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read(ctx, IPv4, "pw-test"); got != nil || err != nil {
		t.Fatalf("got %v, %v; want no table", got, err)
	}
	apply(t, c, nil, sample())
	apply(t, c, sample(), nil)
	if got, err := c.Read(ctx, IPv4, "somebody-else"); err != nil || !got.Equal(other) {
		t.Fatalf("the other table changed: %v", err)
	}
}

func TestTheGenerationCountsChangesOnly(t *testing.T) {
	c, _ := host(t)
	ctx := context.Background()
	gen := func() uint32 {
		g, err := c.Generation(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	one := gen()
	apply(t, c, nil, sample())
	two := gen()
	if _, err := c.Read(ctx, IPv4, "pw-test"); err != nil {
		t.Fatal(err)
	}
	if three := gen(); one == two || two != three {
		t.Errorf("generations %d, %d, %d: want a change, then none", one, two, three)
	}
}

func TestAHundredThousandElementsGoInOneTransactionAndComeBack(t *testing.T) {
	c, _ := host(t)
	want := sample()
	eps := want.Sets["endpoints"].Elems
	for i := range 100000 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		eps[Key{}.Addr(a).Proto(TCP).Port(80).Mark(0).String()] = Key{}.Addr(a).Port(8080).String()
	}
	start := time.Now()
	if err := c.Apply(context.Background(), Create(want)); err != nil {
		t.Fatal(err)
	}
	loaded := time.Now()
	got, err := c.Read(context.Background(), IPv4, "pw-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(fmt.Sprintf("loaded in %v, read in %v", loaded.Sub(start).Round(time.Millisecond), time.Since(loaded).Round(time.Millisecond)))
	if !got.Equal(want) {
		t.Error("what came back differs")
	}
}

func TestLookingAnswersAsReadingDoes(t *testing.T) {
	c, _ := host(t)
	ctx := context.Background()
	apply(t, c, nil, sample())
	read, err := c.Read(ctx, IPv4, "pw-test")
	if err != nil {
		t.Fatal(err)
	}
	look, err := c.Look(ctx, IPv4, "pw-test")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(look.Sets["endpoints"].Elems); n != 0 {
		t.Errorf("looking read %d elements", n)
	}
	for _, p := range []Packet{
		{Proto: TCP, Src: addrPort("10.244.1.9:999"), Dst: addrPort("10.96.0.7:80")},
		{Proto: UDP, Src: addrPort("10.244.1.9:999"), Dst: addrPort("10.96.0.8:53")},
		{Proto: TCP, Src: addrPort("10.244.1.9:999"), Dst: addrPort("1.1.1.1:80"), OIF: "eth1"},
	} {
		want, err := Eval([]*Table{read}, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Eval([]*Table{look}, p)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: looked up %v (%v), read %v", p.Dst, got, err, want)
		}
	}
	inside := tuple("10.1.1.1", TCP, 80).Addr(addr("192.0.2.77")).String()
	if _, ok, err := look.Sets["sources"].find(inside); !ok || err != nil {
		t.Errorf("a key within an interval was not found: %v", err)
	}
	outside := tuple("10.1.1.1", TCP, 80).Addr(addr("192.0.3.77")).String()
	if _, ok, err := look.Sets["sources"].find(outside); ok || err != nil {
		t.Errorf("a key outside the interval was found: %v", err)
	}
}
