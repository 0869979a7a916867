package nethttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/ingress/routes"
)

func TestAConnectFailureGoesToAnotherEndpointWhateverTheMethod(t *testing.T) {
	up := addrOf(backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.Method, body)
	})))
	s := newSite(t, nil, service("web"), at("web", 0, up), at("web", 1, closedPort(t)), at("web", 2, closedPort(t)), rule("web", "shop.example", "/", "web"))
	for i := range 60 {
		r := must(http.NewRequest("POST", "http://shop.example/", io.MultiReader(strings.NewReader("order"))))
		if status, body := do(t, s.client(false), r); status != 200 || body != "POST order" {
			t.Fatalf("request %d: %d %q", i, status, body)
		}
	}
	if n := s.obs.get(func() int { return s.obs.retried }); n == 0 {
		t.Error("nothing was retried")
	}
	if n := s.obs.get(func() int { return s.obs.failed["connect"] }); n > 20 {
		t.Errorf("%d connects failed: the dead endpoints are not avoided", n)
	}
}

func TestWithoutAnyEndpointThatListensTheAnswerIs502(t *testing.T) {
	s := newSite(t, nil, service("web"), at("web", 0, closedPort(t)), at("web", 1, closedPort(t)), rule("web", "shop.example", "/", "web"))
	if status, body := s.get("http://shop.example/"); status != 502 || !strings.Contains(body, "podway") {
		t.Errorf("got %d %q", status, body)
	}
}

// rude accepts requests and hangs up in the place of an answer, after having kept the first connections alive.
type rude struct {
	l      net.Listener
	heads  atomic.Int64
	polite atomic.Int64 // answers to give before
}

func newRude(t *testing.T, polite int64) *rude {
	r := &rude{l: must(net.Listen("tcp", "127.0.0.1:0"))}
	r.polite.Store(polite)
	t.Cleanup(func() { r.l.Close() })
	go func() {
		for {
			c, err := r.l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r
}

func (r *rude) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		if _, err := readHead(in); err != nil {
			return
		}
		r.heads.Add(1)
		if r.polite.Add(-1) < 0 {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nrude")
	}
}

func (r *rude) addr() netip.AddrPort { return netip.MustParseAddrPort(r.l.Addr().String()) }

func TestARequestThatAnEndpointMayHaveSeenIsNotRepeatedUnlessHarmless(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		body   string
		want   int // heads that rude endpoints saw in all
		status int
	}{
		{"GET is asked of others", "GET", "", 5, 502},
		{"HEAD is asked of others", "HEAD", "", 5, 502},
		{"POST is not", "POST", "order", 1, 502},
		{"POST without body is not", "POST", "", 1, 502},
		{"PATCH is not", "PATCH", "x", 1, 502},
		{"PUT on a new connection is not", "PUT", "x", 1, 502},
		{"DELETE on a new connection is not", "DELETE", "", 1, 502},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all []*rude
			s := newSite(t, nil, service("web"), rule("web", "shop.example", "/", "web"))
			for i := range 7 {
				all = append(all, newRude(t, 0))
				s.put(at("web", i, all[i].addr()))
			}
			status, _ := do(t, s.client(false), must(http.NewRequest(tt.method, "http://shop.example/", strings.NewReader(tt.body))))
			heads := 0
			for _, r := range all {
				heads += int(r.heads.Load())
			}
			if status != tt.status || heads != tt.want {
				t.Errorf("status %d, seen by %d; want %d, %d", status, heads, tt.status, tt.want)
			}
		})
	}
}

func TestAnIdleConnectionThatDiedCostsAnIdempotentRequestNothing(t *testing.T) {
	for _, method := range []string{"GET", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			r := newRude(t, 1)
			s := newSite(t, nil, service("web"), at("web", 0, r.addr()), rule("web", "shop.example", "/", "web"))
			if status, _ := s.get("http://shop.example/"); status != 200 {
				t.Fatalf("warming up: %d", status)
			}
			r.l.Close()
			r.polite.Store(0) // hangs up on the kept connection at the next request, as a server does whose idle time is over
			s.put(at("web", 1, addrOf(backend(t, named("good")))))
			for range 8 { // until the pick falls on the rude one
				if status, body := do(t, s.client(false), must(http.NewRequest(method, "http://shop.example/", nil))); status != 200 || !strings.HasPrefix(body, "good") {
					t.Fatalf("%d %q", status, body)
				}
			}
		})
	}
}

func TestAnEndpointThatNeverAnswersIs504(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	s := simple(t, func(o *Options) { o.AnswerTimeout = 50 * time.Millisecond }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	if status, _ := s.get("http://shop.example/"); status != 504 {
		t.Errorf("got %d", status)
	}
}

func TestAClientThatLeavesEndsTheRequestAtTheEndpoint(t *testing.T) {
	left := make(chan struct{})
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(left)
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := s.client(false).Do(must(http.NewRequestWithContext(ctx, "GET", "http://shop.example/", nil)))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Fatal("the endpoint still works on it")
	}
	eventually(t, "nothing in flight", func() bool { return s.srv.InFlight() == 0 })
}

func TestTheLessLoadedEndpointIsPreferred(t *testing.T) {
	b := &balancer{}
	for i := range 4 {
		b.ups = append(b.ups, &upstream{key: upstreamKey{protocol: routes.HTTP1, addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)}})
	}
	counts := make([]int64, 4)
	b.ups[0].inFlight.Store(1000000)
	for range 4000 {
		u := b.pick(time.Now(), nil)
		for i := range b.ups {
			if b.ups[i] == u {
				counts[i]++
				u.begin()
			}
		}
	}
	if counts[0] > 50 {
		t.Errorf("the loaded endpoint got %d of 4000", counts[0])
	}
	for i, n := range counts[1:] {
		if n < 1200 || n > 1500 {
			t.Errorf("endpoint %d got %d of 4000, want about a third", i+1, n)
		}
	}
	if u := b.pick(time.Now(), b.ups[:3]); u != b.ups[3] {
		t.Error("what was tried is picked again")
	}
	if u := b.pick(time.Now(), b.ups); u != nil {
		t.Error("something is left when all was tried")
	}
	b.ups[3].connectFailed(time.Now())
	for range 100 {
		if b.pick(time.Now(), nil) == b.ups[3] {
			t.Fatal("an endpoint that just could not be reached is picked")
		}
	}
	if u := b.pick(time.Now(), b.ups[:3]); u != b.ups[3] {
		t.Error("the unreachable one must be tried when no other is left")
	}
}

func TestIdleConnectionsToAnEndpointThatLeftAreClosedAndOthersFinish(t *testing.T) {
	var mu sync.Mutex
	states := map[net.Conn]http.ConnState{}
	release := make(chan struct{})
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-release
			}
			io.WriteString(w, "leaving")
		}),
		ConnState: func(c net.Conn, st http.ConnState) { mu.Lock(); states[c] = st; mu.Unlock() },
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	go srv.Serve(l)
	defer srv.Close()
	count := func(want http.ConnState) int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, st := range states {
			if st == want {
				n++
			}
		}
		return n
	}
	s := newSite(t, nil, service("web"), at("web", 0, netip.MustParseAddrPort(l.Addr().String())), rule("web", "shop.example", "/", "web"))
	s.get("http://shop.example/")
	slow := make(chan string)
	go func() { _, b := s.get("http://shop.example/slow"); slow <- b }()
	eventually(t, "one active", func() bool { return count(http.StateActive) == 1 })
	go s.get("http://shop.example/slow")
	eventually(t, "two active", func() bool { return count(http.StateActive) == 2 })
	s.get("http://shop.example/")
	eventually(t, "one idle", func() bool { return count(http.StateIdle) == 1 })

	s.put(at("web", 0, addrOf(backend(t, named("staying")))))
	eventually(t, "the idle one closed", func() bool { return count(http.StateIdle) == 0 && count(http.StateClosed) == 1 })
	if _, b := s.get("http://shop.example/"); !strings.HasPrefix(b, "staying") {
		t.Errorf("new requests go to %q", b)
	}
	close(release)
	if got := <-slow; got != "leaving" {
		t.Errorf("the request in flight got %q", got)
	}
	eventually(t, "all closed after they finished", func() bool { return count(http.StateClosed) == 3 })
}
