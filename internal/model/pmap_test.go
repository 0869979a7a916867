package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMapBehavesAsABuiltInMapUnderRandomChange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var m Map[string, int]
	want := map[string]int{}
	for i := range 20000 {
		k := fmt.Sprint(rnd.IntN(3000))
		old, was := m, maps.Clone(want)
		if rnd.IntN(3) == 0 {
			m = m.Delete(k)
			delete(want, k)
		} else {
			m = m.Set(k, i)
			want[k] = i
		}
		if i%500 == 0 {
			if !maps.Equal(maps.Collect(old.All()), was) {
				t.Fatalf("step %d changed the old map", i)
			}
		}
		if m.Len() != len(want) {
			t.Fatalf("step %d: Len %d, want %d", i, m.Len(), len(want))
		}
	}
	if got := maps.Collect(m.All()); !maps.Equal(got, want) {
		t.Fatalf("got %d entries, want %d", len(got), len(want))
	}
	for k, v := range want {
		if got, ok := m.Get(k); !ok || got != v {
			t.Fatalf("Get(%q) = %d %v, want %d", k, got, ok, v)
		}
	}
}

func TestChangedNamesExactlyTheKeysThatDiffer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var a Map[int, int]
	for i := range 5000 {
		a = a.Set(i, i)
	}
	for range 200 {
		b, want := a, map[int]bool{}
		for range rnd.IntN(8) {
			k := rnd.IntN(6000)
			switch _, ok := a.Get(k); {
			case ok && rnd.IntN(2) == 0:
				b = b.Delete(k)
				want[k] = true
			default:
				b = b.Set(k, -1-rnd.IntN(9))
				want[k] = true
			}
		}
		got := map[int]bool{}
		Changed(a, b, func(k int) {
			if got[k] {
				t.Fatalf("key %d named twice", k)
			}
			got[k] = true
		})
		if !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

func BenchmarkSetOneOf30000(b *testing.B) {
	var m Map[int, *int]
	for i := range 30000 {
		m = m.Set(i, new(int))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m = m.Set(i%30000, new(int))
	}
}

func BenchmarkChangedOneOf30000(b *testing.B) {
	var m Map[int, int]
	for i := range 30000 {
		m = m.Set(i, i)
	}
	n := m.Set(77, -1)
	for b.Loop() {
		Changed(m, n, func(int) {})
	}
}
