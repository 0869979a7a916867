package endpointslice

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
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
	shelves := Shelves{}
	members, changed := all[n/2:n/2+1], []string{flipped.Name.Name}
	b.ReportAllocs()
	for b.Loop() {
		var ch Changes
		if touch {
			ch = Touch(svc, members, changed, ns, list, shelves)
		} else {
			ch = Desired(svc, all, ns, list)
		}
		if len(ch.Update) != 1 {
			b.Fatal("want one update")
		}
	}
}

// The same through the Controller: snapshot in, diff, index, plan, encode, and a write to client-go's fake clientset.
func BenchmarkControllerOnePodFlips(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := &Controller{Client: newServer(), QPS: 1e9, Burst: 1e9}
			c.start()
			mb := model.NewBuilder(nil)
			for _, o := range allNodes() {
				mb.Put(o)
			}
			for _, p := range pods(n) {
				mb.Put(p)
			}
			mb.Put(cart())
			step := func() {
				c.ingest(mb.Snapshot(time.Now()))
				if err := c.sync(context.Background(), cart().Name); err != nil {
					b.Fatal(err)
				}
				for _, w := range c.state(cart().Name).overlay { // the writes come back
					mb.Put(w.slice)
				}
			}
			step()
			step()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				mb.Put(pod(n/2, func(p *model.Pod) { p.Ready = i%2 == 1 }))
				step()
			}
		})
	}
}
