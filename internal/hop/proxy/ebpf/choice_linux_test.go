package ebpf

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// who connects n times and counts who answers.
func (l *lab) who(from *nettest.Host, dst netip.AddrPort, n int) map[string]int {
	l.t.Helper()
	count := map[string]int{}
	for range n {
		r := from.Connect(l.t.Context(), nettest.Dial{Proto: "tcp", Dst: dst, Timeout: 5 * time.Second})
		if r.Result != nettest.Reached {
			l.t.Fatalf("%s: %s (%v)", dst, r.Result, r.Err)
		}
		count[r.Who]++
	}
	return count
}

// only is the one who answers every time.
func (l *lab) only(from *nettest.Host, dst netip.AddrPort, n int) string {
	l.t.Helper()
	count := l.who(from, dst, n)
	for name := range count {
		if len(count) == 1 {
			return name
		}
	}
	l.t.Fatalf("%s: %v answer, want one", dst, count)
	return ""
}

func TestEndpointsAreChosenEvenly(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "a2", "b1"), webService())...)
	const n = 300
	count := l.who(l.pods["a3"], vip4, n)
	// Each count is binomial(n, 1/3). Seven standard deviations happen once in 10^11 runs.
	bound := 7 * math.Sqrt(n*(1.0/3)*(2.0/3))
	for _, who := range []string{"a1", "a2", "b1"} {
		if d := math.Abs(float64(count[who]) - n/3.0); d > bound {
			t.Errorf("%s was chosen %d times of %d; all: %v", who, count[who], n, count)
		}
	}
}

func twoPorts(s *model.Service) {
	s.Ports = append(s.Ports, model.ServicePort{Name: "more", Protocol: model.TCP, Port: 81})
}

func TestAffinityHoldsForAllPortsUntilTheEndpointGoes(t *testing.T) {
	l := newLab(t)
	slicesOf := func(pods ...string) []any {
		all := slices46(pods...)
		for _, s := range all {
			sl := s.(*model.EndpointSlice)
			sl.Ports = append(sl.Ports, model.EndpointPort{Name: "more", Protocol: model.TCP, Port: 8081})
		}
		return all
	}
	for name, pod := range l.pods {
		_, err := pod.Serve(name, nettest.Port{Proto: "tcp", Number: 8081})
		l.ok(err)
	}
	l.apply(append(slicesOf("a1", "a2", "b1"), webService(twoPorts, func(s *model.Service) { s.AffinityTimeout = time.Minute }))...)
	for i, vip := range vips {
		first := l.only(l.pods["a3"], vip, 8)
		if other := l.only(l.pods["a3"], netip.AddrPortFrom(vip.Addr(), 81), 8); other != first {
			t.Errorf("%s: port 81 leads to %s, port 80 to %s", vip, other, first)
		}
		if other := l.only(l.pods["a3"], netip.AddrPortFrom(l.a.Addrs[i], nodePort), 8); other != first {
			t.Errorf("%s: the NodePort leads to %s, the ClusterIP to %s", vip, other, first)
		}
		rest := slices.DeleteFunc([]string{"a1", "a2", "b1"}, func(p string) bool { return p == first })
		l.apply(slicesOf(rest...)...)
		second := l.only(l.pods["a3"], vip, 8)
		if second == first {
			t.Errorf("%s: the client was kept on %s, which is not ready", vip, first)
		}
		l.restart()
		l.apply(slicesOf("a1", "a2", "b1")...)
		if third := l.only(l.pods["a3"], vip, 8); third != second {
			t.Errorf("%s: the client moved from %s to %s when another endpoint came", vip, second, third)
		}
	}
}

func TestAffinityEndsWithItsTime(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "a2", "b1"), webService(func(s *model.Service) { s.AffinityTimeout = time.Second }))...)
	seen := map[string]bool{}
	for range 12 { // each time it stays with one of three with a chance of a third
		seen[l.only(l.pods["a3"], vip4, 2)] = true
		if len(seen) > 1 {
			return
		}
		time.Sleep(1100 * time.Millisecond)
	}
	t.Error("the client was kept although its time was over")
}
