package endpointslice

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	objects "github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control/controltest"
	"github.com/podway/podway/internal/model"
)

var soakFull = flag.Bool("soak", false, "run the soak test with 10,000 Services and 100,000 Pods")

// soak is a large cluster whose watch is fake: what is put in comes as snapshots, what is written comes back.
type soak struct {
	services, perService int
	api                  *controltest.Light
	feed                 *controltest.Feed
	ctl                  *Controller
	stop                 context.CancelFunc
	done                 sync.WaitGroup

	mu     sync.Mutex
	since  map[string]time.Time // of Pods that were flipped and are not yet written: since when
	wanted map[string]bool      // and to what
	took   []time.Duration
}

func soakService(i int) *model.Service {
	return cart(func(s *model.Service) {
		s.Name, s.UID = model.N(soakSpace(i), fmt.Sprintf("svc-%05d", i)), fmt.Sprintf("svc-uid-%d", i)
		s.Selector = map[string]string{"app": s.Name.Name}
		s.Labels = map[string]string{"app": s.Name.Name, "team": fmt.Sprint("t", i%40)}
	})
}

func soakSpace(i int) string { return fmt.Sprintf("ns-%03d", i%200) }

func (s *soak) pod(n int, ready bool) *model.Pod {
	i := n / s.perService
	return pod(n, func(p *model.Pod) {
		p.Name = model.N(soakSpace(i), fmt.Sprintf("pod-%06d", n))
		p.Labels = map[string]string{"app": fmt.Sprintf("svc-%05d", i), "pod-template-hash": "5d8f"}
		p.Node, p.Ready = fmt.Sprintf("node-%d", n%3), ready
		p.Addrs = []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}
	})
}

func (s *soak) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ctl = &Controller{Client: s.api, QPS: 1e9, Burst: 1e9, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	c := s.ctl
	s.done.Go(func() { _ = c.Run(ctx, s.feed.C) })
}

func (s *soak) end() {
	s.stop()
	s.done.Wait()
}

// wrote brings a write back, and notes the time of the Pods that waited for it.
func (s *soak) wrote(sl *discoveryv1.EndpointSlice, deleted bool) {
	if deleted {
		s.feed.Delete(objects.Convert(sl))
		return
	}
	now := time.Now()
	s.mu.Lock()
	for i := range sl.Endpoints {
		e := &sl.Endpoints[i]
		if t, ok := s.since[e.TargetRef.Name]; ok && *e.Conditions.Ready == s.wanted[e.TargetRef.Name] {
			s.took = append(s.took, now.Sub(t))
			delete(s.since, e.TargetRef.Name)
		}
	}
	s.mu.Unlock()
	s.feed.Put(objects.Convert(sl))
}

func (s *soak) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.since)
}

func within(t *testing.T, d time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > d {
			t.Fatalf("%s: not after %s", what, d)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}

func heapMiB() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}

func TestALargeClusterComesUpAndKeepsUp(t *testing.T) {
	s := &soak{services: 500, perService: 10, api: controltest.NewLight(), feed: controltest.NewFeed(), since: map[string]time.Time{}, wanted: map[string]bool{}}
	flips, patience := 2000, time.Minute
	if *soakFull {
		s.services, flips, patience = 10000, 50000, 10*time.Minute
	}
	s.api.Wrote = s.wrote
	before := heapMiB()
	all := make([]any, 0, s.services*(s.perService+1)+3)
	all = append(all, allNodes()...)
	for i := range s.services {
		all = append(all, soakService(i))
	}
	for n := range s.services * s.perService {
		all = append(all, s.pod(n, true))
	}
	s.feed.Put(all...)
	all = nil
	view := heapMiB()

	s.start()
	first := within(t, patience, "first sync", func() bool {
		return s.api.Writes("endpointslices") >= s.services && s.api.Writes("endpoints") >= s.services
	})
	churn := s.churn(t, flips, patience)
	settled := s.settled(t, patience)
	s.check(t, settled)
	s.api.Forget()
	running := heapMiB()
	s.end()
	t.Logf("%d Services, %d Pods: first sync %s (%d slices, %d Endpoints written); %d flips in %s, p50 %s, p99 %s from snapshot to write; heap %d MiB for the view of Pods and Services, %d MiB with the Controller and the view of slices",
		s.services, s.services*s.perService, first.Round(time.Millisecond), s.services, s.services, flips, churn.Round(time.Millisecond),
		s.percentile(50), s.percentile(99), view-before, running-before)
	if p := s.percentile(99); p > 5*time.Second {
		t.Errorf("a flip took %s", p)
	}
}

// churn flips Pods at random, in groups of fifty as a rollout does, as fast as they are taken in.
func (s *soak) churn(t *testing.T, flips int, patience time.Duration) time.Duration {
	rnd, start := rand.New(rand.NewPCG(1, 1)), time.Now()
	ready := map[int]bool{}
	for done := 0; done < flips; done += 50 {
		var objs []any
		s.mu.Lock()
		for len(objs) < 50 {
			n := rnd.IntN(s.services * s.perService)
			p := s.pod(n, ready[n])
			if _, ok := s.since[p.Name.Name]; ok {
				continue // there and back within one look is no change
			}
			ready[n] = !ready[n] // Pods begin ready: the first flip of each is to not ready
			s.wanted[p.Name.Name] = p.Ready
			s.since[p.Name.Name] = time.Now()
			objs = append(objs, p)
		}
		s.mu.Unlock()
		s.feed.Put(objs...)
		within(t, patience, "a group of flips", func() bool { return s.waiting() < 50 })
	}
	within(t, patience, "the last flips", func() bool { return s.waiting() == 0 })
	return time.Since(start)
}

// settled waits until nothing is written any more, and returns the number of writes of slices.
func (s *soak) settled(t *testing.T, patience time.Duration) int {
	last, quiet := -1, time.Now()
	within(t, patience, "quiet", func() bool {
		if n := s.api.Writes("endpointslices") + s.api.Writes("endpoints"); n != last {
			last, quiet = n, time.Now()
		}
		return time.Since(quiet) > 500*time.Millisecond
	})
	return s.api.Writes("endpointslices")
}

// looked reports whether the Controller has looked at the slices of every Service and at all Endpoints.
func (s *soak) looked() bool {
	s.ctl.mu.Lock()
	defer s.ctl.mu.Unlock()
	if s.ctl.snap == nil || len(s.ctl.services) < s.services || len(s.ctl.endpoints.objects) < s.services || s.ctl.endpoints.queue.Len() > 0 {
		return false
	}
	for _, st := range s.ctl.services {
		if st.dirt != nil {
			return false
		}
	}
	return true
}

// check sees that every Pod stands in exactly one slice, and that a new leader has nothing to write.
func (s *soak) check(t *testing.T, writes int) {
	t.Helper()
	seen := map[string]bool{}
	s.api.Slices(func(sl *discoveryv1.EndpointSlice) {
		for _, e := range sl.Endpoints {
			name := e.TargetRef.Name
			if want, flipped := s.wanted[name]; seen[name] || *e.Conditions.Ready != (want || !flipped) {
				t.Errorf("%s: ready %t, seen before %t", name, *e.Conditions.Ready, seen[name])
			}
			seen[name] = true
		}
	})
	if len(seen) != s.services*s.perService {
		t.Errorf("%d of %d Pods are in slices", len(seen), s.services*s.perService)
	}
	s.end()
	s.feed.Put(soakService(0))
	s.start()
	took := within(t, 5*time.Minute, "a new leader", s.looked)
	s.settled(t, time.Minute)
	t.Logf("a new leader has looked at everything after %s", took.Round(time.Millisecond))
	if n := s.api.Writes("endpointslices"); n != writes {
		t.Errorf("a new leader wrote %d slices", n-writes)
	}
}

func (s *soak) percentile(p int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(s.took))
	return all[min(len(all)*p/100, len(all)-1)].Round(10 * time.Microsecond)
}
