package answers

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/model"
)

// randomStep changes a few objects of a small cluster.
func randomStep(r *rand.Rand, from *model.Snapshot) *model.Snapshot {
	b := model.NewBuilder(from)
	for range 1 + r.IntN(3) {
		ns, name := fmt.Sprint("ns", r.IntN(2)), fmt.Sprint("svc", r.IntN(4))
		switch r.IntN(8) {
		case 0:
			b.Delete(&model.Service{Name: model.N(ns, name)})
		case 1:
			b.Put(clusterIP(ns, name, fmt.Sprintf("10.96.0.%d", r.IntN(4))))
		case 2:
			b.Put(external(ns, name, fmt.Sprintf("svc%d.ns0.svc.cluster.local", r.IntN(4))))
		case 3, 4:
			b.Put(headless(ns, name))
		case 5:
			b.Delete(slice(ns, "", fmt.Sprint("slice", r.IntN(6))))
		default:
			var endpoints []string
			for range r.IntN(4) {
				endpoints = append(endpoints, []string{"", "!", "a=", "b="}[r.IntN(4)]+
					[]string{"10.244.0.1", "10.244.0.2", "10.244.0.3", "fd00::1"}[r.IntN(4)])
			}
			b.Put(slice(ns, name, fmt.Sprint("slice", r.IntN(6)), endpoints...))
		}
	}
	return b.Snapshot(time.Unix(1_700_000_000+r.Int64N(1000), 0))
}

func TestChangesBetweenAnySnapshotsEqualAFullView(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	snapshots := []*model.Snapshot{shop(), snapshot()}
	for range 60 {
		snapshots = append(snapshots, randomStep(r, snapshots[len(snapshots)-1]))
	}
	old := snapshots[0]
	v := view(t, options, old)
	for i := range 600 {
		next := snapshots[r.IntN(len(snapshots))]
		was := v.Text()
		var changed int
		change := model.Diff(old, next)
		if i%5 == 0 {
			change = model.Everything()
		}
		v, changed = v.Apply(next, change)
		full := view(t, options, next)
		if diff := cmp.Diff(full.Text(), v.Text()); diff != "" {
			t.Fatalf("step %d, revision %d to %d (-full +incremental):\n%s", i, old.Rev, next.Rev, diff)
		}
		if changed == 0 && was != v.Text() {
			t.Fatalf("step %d: answers differ though no Service is said to have changed", i)
		}
		if v.Services() != full.Services() || v.addrs.Len() != full.addrs.Len() || v.spaces.Len() != full.spaces.Len() {
			t.Fatalf("step %d: something was left behind", i)
		}
		if again, n := v.Apply(next, model.Everything()); n != 0 || again.Text() != v.Text() {
			t.Fatalf("step %d: the same snapshot again changed %d Services", i, n)
		}
		old = next
	}
}

func TestACompiledOnDemandViewAnswersLikeAFullOne(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := snapshot()
	for range 40 {
		s = randomStep(r, s)
		full := view(t, options, s)
		lazy, err := Of(options, s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			for _, q := range []string{"A svc%d.ns0.svc.cluster.local", "SRV _http._tcp.svc%d.ns1.svc.cluster.local", "A ns%d.svc.cluster.local",
				"PTR %d.0.96.10.in-addr.arpa", "PTR %d.0.244.10.in-addr.arpa", "A a.svc%d.ns0.svc.cluster.local"} {
				q = fmt.Sprintf(q, i)
				if got, want := dig(t, lazy, q), dig(t, full, q); got != want {
					t.Fatalf("revision %d: dig %s: on demand %s, full %s", s.Rev, q, got, want)
				}
			}
		}
	}
}

func TestAnEndpointNeverVanishesWhileItMovesToAnotherSlice(t *testing.T) {
	const q, want = "A pod-7.nodes.shop.svc.cluster.local", "A 10.244.1.7"
	s := snapshot(headless("shop", "nodes"), slice("shop", "nodes", "nodes-a", "pod-6=10.244.1.6", "pod-7=10.244.1.7"))
	v := view(t, options, s)
	for _, step := range [][]any{
		{slice("shop", "nodes", "nodes-b", "pod-7=10.244.1.7")},
		{slice("shop", "nodes", "nodes-a", "pod-6=10.244.1.6", "!pod-7=10.244.1.7")},
		{slice("shop", "nodes", "nodes-a", "pod-6=10.244.1.6")},
		{slice("shop", "nodes", "nodes-a"), slice("shop", "nodes", "nodes-b", "pod-6=10.244.1.6", "pod-7=10.244.1.7")},
	} {
		b := model.NewBuilder(s)
		for _, o := range step {
			b.Put(o)
		}
		next := b.Snapshot(s.Time)
		v, _ = v.Apply(next, model.Diff(s, next))
		if got := dig(t, v, q); got != want {
			t.Fatalf("got %s", got)
		}
		s = next
	}
}

func TestAfterARelistDeletedServicesAreGone(t *testing.T) {
	v := view(t, options, shop())
	v, _ = v.Apply(snapshot(clusterIP("shop", "new", "10.96.0.9")), model.Everything())
	for q, want := range map[string]string{"A new.shop.svc.cluster.local": "A 10.96.0.9", "A cart.shop.svc.cluster.local": "NXDOMAIN",
		"PTR 7.41.96.10.in-addr.arpa": "NXDOMAIN"} {
		if got := dig(t, v, q); got != want {
			t.Errorf("dig %s: got %s, want %s", q, got, want)
		}
	}
}

func TestEndpointsOfServicesWithClusterIPCostNothing(t *testing.T) {
	s := shop()
	v := view(t, options, s)
	b := model.NewBuilder(s)
	b.Put(slice("shop", "cart", "cart-y", "10.244.9.10"))
	next := b.Snapshot(s.Time)
	if _, changed := v.Apply(next, model.Diff(s, next)); changed != 0 {
		t.Errorf("%d Services changed, want none", changed)
	}
}
