package endpointslice

import (
	"fmt"
	"testing"
)

// One Pod of n flips between ready and not ready: what the decision alone costs.
func BenchmarkDesiredOnePodFlips(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchFlip(b, n, false) })
	}
}

func BenchmarkTouchOnePodFlips(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchFlip(b, n, true) })
	}
}

func benchFlip(b *testing.B, n int, touch bool) {
	svc, all, ns := cart(), pods(n), nodes()
	var c cluster
	c.apply(Desired(svc, all, ns, nil))
	list := c.list()
	flipped := pod(n / 2)
	flipped.Ready = false
	all[n/2] = flipped
	members, changed := all[n/2:n/2+1], []string{flipped.Name.Name}
	b.ReportAllocs()
	for b.Loop() {
		var ch Changes
		if touch {
			ch = Touch(svc, members, changed, ns, list)
		} else {
			ch = Desired(svc, all, ns, list)
		}
		if len(ch.Update) != 1 {
			b.Fatal("want one update")
		}
	}
}
