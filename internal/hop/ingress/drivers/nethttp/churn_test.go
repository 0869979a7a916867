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
		replace func(s *site, old, next pod, pass func())
	}{
		{"Pods that leave the slices a moment before they end", []string{"GET", "POST"}, func(s *site, old, next pod, pass func()) {
			s.build.Delete(old.at)
			s.put(next.at)
			pass()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			old.srv.Shutdown(ctx)
		}},
		{"Pods that are killed before they leave the slices, asked what may be asked twice", []string{"GET"}, func(s *site, old, next pod, pass func()) {
			old.srv.Close()
			pass()
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
			l := startLoad(t, s, tt.methods)
			for n := 4; l.sent() < 4000 && !t.Failed(); n++ {
				next := startPod(n)
				tt.replace(s, pods[n%4], next, l.pass)
				pods[n%4] = next
			}
			sent := l.stop()
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

// load is eight clients that send requests without a pause. Any failure is the test's.
type load struct {
	clients [8]atomic.Int64 // requests that each has done
	done    chan struct{}
	workers sync.WaitGroup
}

// sent is how many requests are done.
func (l *load) sent() (n int64) {
	for i := range l.clients {
		n += l.clients[i].Load()
	}
	return n
}

// pass returns when every request that was under way is done, however busy the machine is: by the second that a client
// finishes from now on, the one before has begun after pass was called.
func (l *load) pass() {
	for i := range l.clients {
		for end := l.clients[i].Load() + 2; l.clients[i].Load() < end; time.Sleep(time.Millisecond) {
		}
	}
}

// stop ends the load and says how many requests there were.
func (l *load) stop() int64 {
	close(l.done)
	l.workers.Wait()
	return l.sent()
}

func startLoad(t *testing.T, s *site, methods []string) *load {
	l := &load{done: make(chan struct{})}
	for w := range l.clients {
		c := s.client(false)
		l.workers.Go(func() {
			for i := w; ; i++ {
				select {
				case <-l.done:
					return
				default:
				}
				method, body := methods[i%len(methods)], io.Reader(nil)
				if method == "POST" {
					body = strings.NewReader("body")
				}
				res, err := c.Do(must(http.NewRequest(method, "http://shop.example/", body)))
				l.clients[w].Add(1)
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
	return l
}

// TestNoRequestFailsWhileRoutesAreSwapped changes Ingresses of other hosts and of this one all the time.
func TestNoRequestFailsWhileRoutesAreSwapped(t *testing.T) {
	s := simple(t, nil, named("web"))
	l := startLoad(t, s, []string{"GET", "POST"})
	swaps := 0
	for ; l.sent() < 2000 && !t.Failed(); swaps++ {
		s.put(rule("web", "shop.example", []string{"/", ""}[swaps%2], "web"), rule("other", "other.example", "/", "web"))
		if swaps%2 == 0 {
			s.build.Delete(rule("other", "", "", ""))
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d requests over %d swaps", l.stop(), swaps)
}
