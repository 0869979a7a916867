package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/ingress/certs/certstest"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

var (
	_          hop.Hop = (*Hop)(nil)
	loopback           = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	classOfOur         = &model.IngressClass{Name: "podway", Controller: routes.DefaultController}
)

func newHop(t *testing.T, o Options) *Hop {
	t.Helper()
	o.HTTP, o.HTTPS = loopback, loopback
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Remove(context.Background()) })
	return h
}

// shop is a cluster with what can go right and wrong; the endpoints answer with their own address.
func shop(t *testing.T) []*model.Snapshot {
	var ups []netip.AddrPort
	for range 3 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Context().Value(http.LocalAddrContextKey).(fmt.Stringer).String())
		}))
		t.Cleanup(s.Close)
		ups = append(ups, netip.MustParseAddrPort(s.Listener.Addr().String()))
	}
	slice := func(svc string, n int, e model.Endpoint) *model.EndpointSlice {
		e.Addr = ups[n].Addr()
		return &model.EndpointSlice{Name: model.N("shop", fmt.Sprint(svc, n)), Service: model.N("shop", svc), AddressType: "IPv4",
			Ports: []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: ups[n].Port()}}, Endpoints: []model.Endpoint{e}}
	}
	svc := func(name string) *model.Service {
		return &model.Service{Name: model.N("shop", name), Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80, TargetPort: model.PortRef{Number: 8080}}}}
	}
	ing := func(name, class string, rules ...model.IngressRule) *model.Ingress {
		return &model.Ingress{Name: model.N("shop", name), Class: class, Rules: rules}
	}
	rule := func(host, path, svc string, port model.PortRef) model.IngressRule {
		return model.IngressRule{Host: host, Paths: []model.IngressPath{{Path: path, Type: model.PathPrefix, Backend: model.IngressBackend{Service: svc, Port: port}}}}
	}
	byName, byNumber := model.PortRef{Name: "http"}, model.PortRef{Number: 80}
	up := model.Endpoint{Ready: true, Serving: true}
	b := model.NewBuilder(nil)
	put := func(objs ...any) *model.Snapshot {
		for _, o := range objs {
			b.Put(o)
		}
		return b.Snapshot(time.Now())
	}
	all := []*model.Snapshot{put(classOfOur)}
	all = append(all, put(svc("cart"), slice("cart", 0, up), slice("cart", 1, up), ing("main", "podway", rule("shop.example", "/", "cart", byName))))
	all = append(all, put(svc("web"), slice("web", 2, model.Endpoint{Serving: true, Terminating: true}), svc("empty"),
		ing("more", "podway", rule("shop.example", "/web", "web", byNumber), rule("shop.example", "/none", "nobody", byName),
			rule("shop.example", "/port", "cart", model.PortRef{Number: 8080}), rule("shop.example", "/empty", "empty", byName), rule("*.shop.example", "/w", "cart", byName)),
		ing("alien", "other", rule("alien.example", "/", "cart", byName)), ing("late", "podway", rule("shop.example", "/web", "cart", byName))))
	secured := ing("main", "podway", rule("shop.example", "/", "cart", byName))
	secured.TLS = []model.IngressTLS{{Hosts: []string{"shop.example"}, Secret: "cert"}}
	all = append(all, put(secured))
	all = append(all, put(certstest.Secret(t, model.N("shop", "cert"), "shop.example")))
	all = append(all, put(&model.IngressClass{Name: "other", Controller: routes.DefaultController}))
	return all
}

func flows() []flow.Flow {
	var out []flow.Flow
	for _, scheme := range []string{"http", "https"} {
		for _, host := range []string{"shop.example", "SHOP.example:80", "a.shop.example", "a.b.shop.example", "alien.example", "unknown.example"} {
			for _, path := range []string{"/", "/web/x", "/none", "/port", "/empty", "/w", "/a%2fb", "/web%2Fx", "/a/../b", ""} {
				out = append(out, flow.Flow{From: flow.FromOutside, Proto: flow.TCP, HTTP: &flow.Request{Scheme: scheme, Host: host, Path: path, Method: "GET"}})
			}
		}
	}
	return out
}

func TestDeclaredIsProgrammedIsWhatAClientSees(t *testing.T) {
	h := newHop(t, Options{})
	var last *model.Snapshot
	for i, s := range shop(t) {
		if _, err := h.Apply(t.Context(), s, model.Diff(last, s)); err != nil {
			t.Fatal(err)
		}
		last = s
		for _, f := range flows() {
			declared := h.Declared(s, f)
			programmed, err := h.Programmed(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if !declared.Same(programmed) {
				t.Errorf("snapshot %d, %+v:\n\tdeclared %s\n\tprogrammed %s", i, f.HTTP, declared, programmed)
			}
			seen(t, h, f, declared)
		}
	}
}

// seen sends the request and compares what comes with the verdict.
func seen(t *testing.T, h *Hop, f flow.Flow, v flow.Verdict) {
	t.Helper()
	at := h.Addrs()[0]
	tr := &http.Transport{DisableKeepAlives: true}
	if f.HTTP.Scheme == "https" {
		at = h.Addrs()[1]
		tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, ServerName: "shop.example"}
	}
	r, err := http.NewRequest("GET", f.HTTP.Scheme+"://"+at.String()+f.HTTP.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = f.HTTP.Host
	res, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	switch v.Action {
	case flow.Forward:
		if res.StatusCode != 200 || !slices.Contains(v.Targets, netip.MustParseAddrPort(string(body))) {
			t.Errorf("%+v: declared %s, got %d %s", f.HTTP, v, res.StatusCode, body)
		}
	case flow.Answer:
		if res.StatusCode != v.Status {
			t.Errorf("%+v: declared %s, got %d %s", f.HTTP, v, res.StatusCode, body)
		}
	default:
		t.Errorf("%+v: %s", f.HTTP, v)
	}
}

func TestApplyingTwiceChangesNothingAndAnyToAnyEqualsAFullApply(t *testing.T) {
	fail := false
	h := newHop(t, Options{In: func(f func() error) error {
		if fail {
			fail = false
			return errors.New("injected")
		}
		return f()
	}})
	all := shop(t)
	fail = true
	if _, err := h.Apply(t.Context(), all[1], model.Everything()); err == nil || h.Ready() == nil {
		t.Fatal("an address that cannot be opened must be an error, and not ready")
	}
	have := (*model.Snapshot)(nil)
	for _, a := range all {
		for _, b := range all {
			for _, s := range []*model.Snapshot{a, b} {
				if _, err := h.Apply(t.Context(), s, model.Diff(have, s)); err != nil {
					t.Fatal(err)
				}
				have = s
				if got, want := h.driver.Table().Text(), routes.Build(routes.Config{}, s).Text(); got != want {
					t.Fatalf("got\n%s\nwant\n%s", got, want)
				}
			}
			for _, c := range []model.Change{{}, model.Everything()} {
				if r, err := h.Apply(t.Context(), b, c); err != nil || r.Changed != 0 {
					t.Fatalf("applying again changed %d (%v)", r.Changed, err)
				}
			}
		}
	}
	if err := h.Ready(); err != nil {
		t.Error(err)
	}
}

func TestNothingIsServedBeforeTheFirstViewOrAfterRemove(t *testing.T) {
	h := newHop(t, Options{})
	f := flow.Flow{HTTP: &flow.Request{Scheme: "http", Host: "shop.example", Path: "/"}}
	for _, when := range []string{"before the first view", "after remove"} {
		if h.Ready() == nil && when == "before the first view" || len(h.Addrs()) != 0 {
			t.Errorf("%s: ready or listening on %v", when, h.Addrs())
		}
		v, err := h.Programmed(t.Context(), f)
		if err != nil || v.Action != flow.Refused || len(v.Findings) != 1 || v.Findings[0].Code != flow.IngressDown {
			t.Errorf("%s: %s %v %v", when, v, v.Findings, err)
		}
		s := shop(t)[1]
		if _, err := h.Apply(t.Context(), s, model.Everything()); err != nil {
			t.Fatal(err)
		}
		if v, _ := h.Programmed(t.Context(), f); v.Action != flow.Forward {
			t.Errorf("applied: %s", v)
		}
		if err := h.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestALastGoodCertificateIsToldApart(t *testing.T) {
	h := newHop(t, Options{})
	all := shop(t)
	good := all[4]
	if _, err := h.Apply(t.Context(), good, model.Everything()); err != nil {
		t.Fatal(err)
	}
	b := model.NewBuilder(good)
	b.Delete(&model.Secret{Name: model.N("shop", "cert")})
	bad := b.Snapshot(time.Now())
	r, err := h.Apply(t.Context(), bad, model.Diff(good, bad))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Findings, func(f flow.Finding) bool { return f.Code == flow.IngressBadSecret }) {
		t.Errorf("findings %v", r.Findings)
	}
	f := flow.Flow{HTTP: &flow.Request{Scheme: "https", Host: "shop.example", Path: "/"}}
	v, err := h.Programmed(t.Context(), f)
	if err != nil || !strings.Contains(v.Why, "last good certificate") || len(v.Findings) == 0 || v.Findings[0].Code != flow.IngressBadSecret {
		t.Errorf("%s: %s %v", v, v.Why, v.Findings)
	}
}

func TestMetricsAreWellNamedAndForgetWhatIsGone(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := newHop(t, Options{Metrics: reg})
	s := shop(t)[4]
	if _, err := h.Apply(t.Context(), s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/none", "/a/../b"} {
		seen(t, h, flow.Flow{HTTP: &flow.Request{Scheme: "http", Host: "shop.example", Path: path}},
			h.Declared(s, flow.Flow{HTTP: &flow.Request{Host: "shop.example", Path: path}}))
	}
	h.metrics.Retried(model.N("shop", "cart"))
	h.metrics.UpstreamFailed(model.N("shop", "cart"), "connect")
	h.metrics.Handshake("")
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	for name, want := range map[string]int{
		"podway_ingress_requests_total": 3, "podway_ingress_upstream_errors_total": 1, "podway_ingress_retries_total": 1,
		"podway_ingress_certificate_expiry_timestamp_seconds": 1, "podway_ingress_refused_requests_total": 1,
	} {
		if n, err := testutil.GatherAndCount(reg, name); err != nil || n != want {
			t.Errorf("%s: %d series, want %d (%v)", name, n, want, err)
		}
	}
	b := model.NewBuilder(s)
	b.Delete(&model.Ingress{Name: model.N("shop", "main")})
	b.Delete(&model.Service{Name: model.N("shop", "cart")})
	gone := b.Snapshot(time.Now())
	if _, err := h.Apply(t.Context(), gone, model.Diff(s, gone)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"podway_ingress_requests_total": 2, "podway_ingress_upstream_errors_total": 0, "podway_ingress_retries_total": 0} {
		if n, _ := testutil.GatherAndCount(reg, name); n != want {
			t.Errorf("%s: %d series are left, want %d", name, n, want)
		}
	}
}
