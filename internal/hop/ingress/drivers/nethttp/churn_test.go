package nethttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
)

// pod is a server with the slice that lists it.
type pod struct {
	srv *http.Server
	at  *model.EndpointSlice
}

func startPod(n int) pod {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "ok")
	})}
	go srv.Serve(l)
	return pod{srv, at("web", n, netip.MustParseAddrPort(l.Addr().String()))}
}

// TestNoRequestFailsWhileEndpointsComeAndGo is a rolling update without end under load: four Pods, one replaced after the
// other.
func TestNoRequestFailsWhileEndpointsComeAndGo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		methods []string
		replace func(s *site, old, next pod, wait func(requests int64))
	}{
		{"Pods that leave the slices a moment before they end", []string{"GET", "POST"}, func(s *site, old, next pod, wait func(int64)) {
			s.build.Delete(old.at)
			s.put(next.at)
			wait(40)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			old.srv.Shutdown(ctx)
		}},
		{"Pods that are killed before they leave the slices, asked what may be asked twice", []string{"GET"}, func(s *site, old, next pod, wait func(int64)) {
			old.srv.Close()
			wait(20)
			s.build.Delete(old.at)
			s.put(next.at)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, nil, service("web"), rule("web", "shop.example", "/", "web"))
			var pods []pod
			for i := range 4 {
				pods = append(pods, startPod(i))
				s.put(pods[i].at)
			}
			load, done := startLoad(t, s, tt.methods)
			wait := func(n int64) { // by requests, not by time: the machine may be busy
				for end := done() + n; done() < end; time.Sleep(time.Millisecond) {
				}
			}
			for n := 4; done() < 4000 && !t.Failed(); n++ {
				next := startPod(n)
				tt.replace(s, pods[n%4], next, wait)
				pods[n%4] = next
			}
			sent := load()
			for _, p := range pods {
				p.srv.Close()
			}
			t.Logf("%d requests, %d retried", sent, s.obs.get(func() int { return s.obs.retried }))
			if len(s.srv.upstreams) != 4 {
				t.Errorf("%d endpoints are remembered, want 4", len(s.srv.upstreams))
			}
		})
	}
}

// startLoad sends requests from eight clients until the function it returns is called, which then says how many. Any
// failure is the test's; the other one says how many are done so far.
func startLoad(t *testing.T, s *site, methods []string) (stop, completed func() int64) {
	var sent atomic.Int64
	done := make(chan struct{})
	var workers sync.WaitGroup
	for w := range 8 {
		c := s.client(false)
		workers.Go(func() {
			for i := w; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				method, body := methods[i%len(methods)], io.Reader(nil)
				if method == "POST" {
					body = strings.NewReader("body")
				}
				res, err := c.Do(must(http.NewRequest(method, "http://shop.example/", body)))
				sent.Add(1)
				if err != nil {
					t.Error(err)
					continue
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Error(err)
				}
				res.Body.Close()
				if res.StatusCode != 200 {
					t.Errorf("%s: status %d", method, res.StatusCode)
				}
			}
		})
	}
	return func() int64 {
		close(done)
		workers.Wait()
		return sent.Load()
	}, sent.Load
}

// TestNoRequestFailsWhileRoutesAreSwapped changes Ingresses of other hosts and of this one all the time.
func TestNoRequestFailsWhileRoutesAreSwapped(t *testing.T) {
	s := simple(t, nil, named("web"))
	load, done := startLoad(t, s, []string{"GET", "POST"})
	swaps := 0
	for ; done() < 2000 && !t.Failed(); swaps++ {
		s.put(rule("web", "shop.example", []string{"/", ""}[swaps%2], "web"), rule("other", "other.example", "/", "web"))
		if swaps%2 == 0 {
			s.build.Delete(rule("other", "", "", ""))
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d requests over %d swaps", load(), swaps)
}
