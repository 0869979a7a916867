package model

import (
	"testing"
	"time"
)

func slice(name, service string, addrs int) *EndpointSlice {
	return &EndpointSlice{Name: N("shop", name), Service: N("shop", service), Endpoints: make([]Endpoint, addrs)}
}

func TestBackendsFollowTheSlicesOfAService(t *testing.T) {
	b := NewBuilder(nil)
	b.Put(slice("cart-b", "cart", 1))
	b.Put(slice("cart-a", "cart", 2))
	one := b.Snapshot(time.Now())
	b.Put(slice("cart-b", "other", 1)) // relabelled
	two := b.Snapshot(time.Now())
	b.Delete(slice("cart-a", "", 0))
	three := b.Snapshot(time.Now())

	if got := one.Backends(N("shop", "cart")); got == nil || len(got.Slices) != 2 || got.Slices[0].Name.Name != "cart-a" {
		t.Fatalf("first snapshot: %+v", got)
	}
	if got := two.Backends(N("shop", "cart")); got == nil || len(got.Slices) != 1 {
		t.Fatalf("after relabel: %+v", got)
	}
	if got := two.Backends(N("shop", "other")); got == nil || len(got.Slices) != 1 {
		t.Fatalf("the new owner has %+v", got)
	}
	if got := three.Backends(N("shop", "cart")); got != nil {
		t.Fatalf("after delete: %+v", got)
	}
	if c := Diff(one, two); len(c.Services) != 2 {
		t.Fatalf("relabelling changes both Services, got %v", c.Services)
	}
	if c := Diff(three, three); !c.Empty() {
		t.Fatalf("a snapshot differs from itself: %+v", c)
	}
	if c := Diff(nil, three); !c.All {
		t.Fatal("no old snapshot must mean everything")
	}
}

func TestDiffNamesAServiceOnceWhenObjectAndSlicesChange(t *testing.T) {
	b := NewBuilder(nil)
	b.Put(&Service{Name: N("shop", "cart")})
	b.Put(slice("cart-a", "cart", 1))
	one := b.Snapshot(time.Now())
	b.Put(&Service{Name: N("shop", "cart")})
	b.Put(slice("cart-a", "cart", 2))
	if c := Diff(one, b.Snapshot(time.Now())); len(c.Services) != 1 {
		t.Fatalf("got %v", c.Services)
	}
}
