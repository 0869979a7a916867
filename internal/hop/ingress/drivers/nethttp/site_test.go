package nethttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/ingress/certs"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// site is a server on loopback with a cluster in front of it that tests change.
type site struct {
	t     testing.TB
	srv   *Server
	obs   *tally
	store *certs.Store
	build *model.Builder
	snap  *model.Snapshot
	table *routes.Table
}

func newSite(t testing.TB, change func(*Options), objs ...any) *site {
	t.Helper()
	store, err := certs.NewStore()
	if err != nil {
		t.Fatal(err)
	}
	loopback := netip.MustParseAddrPort("127.0.0.1:0")
	obs := &tally{failed: map[string]int{}, refused: map[string]int{}, done: map[int]int{}}
	o := Options{HTTP: []netip.AddrPort{loopback}, HTTPS: []netip.AddrPort{loopback}, Certificate: store.GetCertificate, Observer: obs}
	if change != nil {
		change(&o)
	}
	s := &site{t: t, srv: New(o), obs: obs, store: store, build: model.NewBuilder(nil)}
	s.build.Put(&model.IngressClass{Name: "podway", Controller: routes.DefaultController})
	s.put(objs...)
	if err := s.srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.srv.Close() })
	return s
}

// put changes the cluster and has the server follow, as the hop does.
func (s *site) put(objs ...any) {
	for _, o := range objs {
		s.build.Put(o)
	}
	s.apply()
}

func (s *site) apply() {
	s.t.Helper()
	next := s.build.Snapshot(time.Now())
	var table *routes.Table
	if s.table == nil {
		table = routes.Build(routes.Config{}, next)
	} else {
		table = s.table.Update(next, model.Diff(s.snap, next))
	}
	routes.ChangedTLS(s.table, table, func(host string, e *routes.TLS) {
		if e == nil {
			s.store.Delete(host)
		} else {
			s.store.Set(host, e.Cert)
		}
	})
	s.srv.Use(table)
	s.snap, s.table = next, table
}

func (s *site) addr() string    { return s.srv.Addrs()[0].String() }
func (s *site) tlsAddr() string { return s.srv.Addrs()[1].String() }

// client speaks to the server whatever the URL's host is; it trusts the certificates of the Secrets.
func (s *site) client(h2 bool, trust ...*model.Secret) *http.Client {
	pool := x509.NewCertPool()
	for _, t := range trust {
		pool.AppendCertsFromPEM(t.Cert)
	}
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2, MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := s.addr()
			if strings.HasSuffix(addr, ":443") {
				to = s.tlsAddr()
			}
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get is status and body.
func (s *site) get(url string) (int, string) {
	s.t.Helper()
	return do(s.t, s.client(false), must(http.NewRequest("GET", url, nil)))
}

func do(t testing.TB, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: body: %v", r.Method, r.URL, err)
	}
	return res.StatusCode, string(body)
}

// raw sends bytes as they are and returns the status line and the rest of the first answer.
func (s *site) raw(request string) string {
	s.t.Helper()
	c := must(net.Dial("tcp", s.addr()))
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(c, request)
	out, _ := io.ReadAll(c)
	return string(out)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// backend is a real HTTP server on loopback.
func backend(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// named answers with its name and what it saw.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", name, r.URL.RequestURI())
	})
}

func addrOf(s *httptest.Server) netip.AddrPort {
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

func service(name string) *model.Service {
	return &model.Service{Name: model.N("shop", name), Type: model.ClusterIP, Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80}}}
}

// at is the slice of one endpoint of a Service; n tells them apart.
func at(svc string, n int, a netip.AddrPort) *model.EndpointSlice {
	return &model.EndpointSlice{
		Name: model.N("shop", fmt.Sprintf("%s-%d", svc, n)), Service: model.N("shop", svc), AddressType: "IPv4",
		Ports:     []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: a.Port()}},
		Endpoints: []model.Endpoint{{Addr: a.Addr(), Ready: true, Serving: true}},
	}
}

// rule is an Ingress with one rule.
func rule(name, host, path, svc string) *model.Ingress {
	return &model.Ingress{Name: model.N("shop", name), Class: "podway", Rules: []model.IngressRule{{Host: host, Paths: []model.IngressPath{{
		Path: path, Type: model.PathPrefix, Backend: model.IngressBackend{Service: svc, Port: model.PortRef{Name: "http"}}}}}}}
}

// simple is a site with one Service "web" at host shop.example, served by h.
func simple(t *testing.T, change func(*Options), h http.Handler) *site {
	return newSite(t, change, service("web"), at("web", 0, addrOf(backend(t, h))), rule("web", "shop.example", "/", "web"))
}

// tally counts what an Observer is told.
type tally struct {
	mu              sync.Mutex
	began, retried  int
	failed, refused map[string]int
	done            map[int]int
}

func (o *tally) add(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}
func (o *tally) Began()             { o.add(func() { o.began++ }) }
func (o *tally) Retried(model.Name) { o.add(func() { o.retried++ }) }
func (o *tally) Refused(why string) { o.add(func() { o.refused[why]++ }) }
func (o *tally) Handshake(string)   {}
func (o *tally) Done(_ *routes.Route, status int, _ time.Duration) {
	o.add(func() { o.done[status]++ })
}
func (o *tally) UpstreamFailed(_ model.Name, why string) { o.add(func() { o.failed[why]++ }) }

func (o *tally) get(f func() int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return f()
}

func addrPort(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) netip.AddrPort {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return addrPort(l)
}

// readHead reads the head of an answer from a raw connection.
func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String(), err
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 10s: %s", what)
}
