package maglev

import (
	"net/netip"
	"testing"
)

func endpoints(n int) (out []netip.AddrPort) {
	for i := range n {
		out = append(out, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), 8080))
	}
	return out
}

func clients(n int) (out []netip.Addr) {
	for i := range n {
		out = append(out, netip.AddrFrom4([4]byte{100, byte(64 + i>>16), byte(i >> 8), byte(i)}))
	}
	return out
}

func TestEachEndpointHasNearlyTheSameShare(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 100, 101, 1000} {
		table, count := Table(endpoints(n)), make([]int, n)
		for _, e := range table {
			count[e]++
		}
		for i, c := range count {
			if mean := float64(len(table)) / float64(n); float64(c) < mean-1.01 || float64(c) > mean+1.01 {
				t.Errorf("%d endpoints, %d slots: endpoint %d has %d", n, len(table), i, c)
			}
		}
	}
}

func TestTakingAnEndpointAwayMovesFewOtherClients(t *testing.T) {
	all := endpoints(10)
	before := Table(all)
	for gone := range all {
		left := append(append([]netip.AddrPort{}, all[:gone]...), all[gone+1:]...)
		after, moved, kept := Table(left), 0, 0
		for slot, e := range before {
			switch {
			case int(e) == gone:
			case all[e] == left[after[slot]]:
				kept++
			default:
				moved++
			}
		}
		if moved*5 > kept {
			t.Errorf("without endpoint %d, %d slots of others moved and %d stayed", gone, moved, kept)
		}
	}
}

func TestClientsAreSpreadOverTheSlots(t *testing.T) {
	const size = 1021
	count := make([]int, size)
	for _, c := range clients(100 * size) {
		count[Slot(c, size)]++
	}
	for slot, n := range count {
		if n < 50 || n > 150 {
			t.Errorf("slot %d has %d clients of 100 on average", slot, n)
		}
	}
}

func TestASizeServesTenSlotsForEachEndpointAtLeast(t *testing.T) {
	for _, c := range []struct{ endpoints, size int }{{1, 1021}, {102, 1021}, {103, 8191}, {819, 8191}, {820, 65521}, {6553, 65521}, {60000, 65521}} {
		if got := Size(c.endpoints); got != c.size {
			t.Errorf("%d endpoints: %d slots, want %d", c.endpoints, got, c.size)
		}
	}
}
