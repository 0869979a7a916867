package model

import (
	"maps"
	"testing"
)

func TestMapOfIsTheMapThatSetMakes(t *testing.T) {
	want := map[int]int{}
	var set Map[int, int]
	for i := range 5000 {
		want[i*7] = i
		set = set.Set(i*7, i)
	}
	m := MapOf(want)
	if m.Len() != len(want) || !maps.Equal(maps.Collect(m.All()), want) {
		t.Fatalf("got %d entries, want %d", m.Len(), len(want))
	}
	Changed(set, m, func(k int) { t.Errorf("key %d differs from the map made by Set", k) })
	if n := m.Set(1, 1); n.Len() != m.Len()+1 || m.At(1) != 0 {
		t.Error("a map made by MapOf is not persistent")
	}
	if MapOf(map[int]int{}).Len() != 0 {
		t.Error("an empty map is not empty")
	}
}

func BenchmarkMapOf10000(b *testing.B) {
	in := map[int]*int{}
	for i := range 10000 {
		in[i] = new(int)
	}
	b.ReportAllocs()
	for b.Loop() {
		MapOf(in)
	}
}
