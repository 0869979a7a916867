package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/corefile"
	"github.com/podway/podway/internal/model"
)

// conf reads a Corefile.
func conf(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := corefile.Parse("Corefile", []byte(text), corefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer asks over UDP and spells the answer.
func answer(t *testing.T, addr, name string) string {
	t.Helper()
	c := dns.Client{Timeout: 15 * time.Second} // of a busy machine; no question is asked twice
	a, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), addr)
	if err != nil {
		return err.Error()
	}
	out := dns.RcodeToString[a.Rcode]
	for _, rr := range a.Answer {
		out += " " + Record(rr)
	}
	return out
}

const kubernetes = " kubernetes cluster.local in-addr.arpa ip6.arpa {\n  fallthrough in-addr.arpa ip6.arpa\n }\n"

func TestAChangedConfigurationIsTakenWithoutLosingAQuestion(t *testing.T) {
	world := fakeWorld(t)
	text := func(addr string) string {
		return fmt.Sprintf(". {\n hosts none {\n  %s host.example\n  fallthrough\n }\n%s forward . %s\n}", addr, kubernetes, world)
	}
	var change atomic.Pointer[config.Config]
	h := newHop(t, Options{Listen: loopback, Config: conf(t, text("10.0.0.1")), Changed: func() (*config.Config, error) { return change.Swap(nil), nil }})
	if _, err := h.Apply(t.Context(), shop(), model.Everything()); err != nil {
		t.Fatal(err)
	}
	addr := h.Addrs()[0].String()
	kept := h.serving.Load().forwarders
	stop, lost, asked := make(chan struct{}), make(chan string, 100), atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := []string{"cart.shop.svc.cluster.local.", "www.example.com.", "host.example."}[i%3]
			if got := answer(t, addr, name); !strings.HasPrefix(got, "NOERROR A ") {
				lost <- name + ": " + got
			}
			asked.Add(1)
		}
	}()
	began := time.Now()
	change.Store(conf(t, text("10.0.0.2")))
	for answer(t, addr, "host.example.") != "NOERROR A 10.0.0.2" {
		if time.Since(began) > lookEvery+10*time.Second { // on a busy machine
			t.Fatal("the change is not in force after one look")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for asked.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	for i := range 50 { // many more, by hand
		if err := h.adopt(conf(t, text(fmt.Sprint("10.0.1.", i)))); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-done
	select {
	case l := <-lost:
		t.Errorf("lost: %s (and %d more)", l, len(lost))
	default:
	}
	if asked.Load() < 20 || h.Addrs()[0].String() != addr {
		t.Errorf("%d questions; the socket is now %v", asked.Load(), h.Addrs())
	}
	for told, f := range h.serving.Load().forwarders {
		if kept[told] != f {
			t.Errorf("a forwarder that is told the same was made anew: %s", told)
		}
	}
}

func TestAnInvalidChangeKeepsTheConfigurationAndIsAFinding(t *testing.T) {
	next := make(chan func() (*config.Config, error), 1)
	h := newHop(t, Options{Node: "node-1", Listen: loopback, Config: conf(t, ". {\n hosts none {\n  10.0.0.1 host.example\n }\n}"), Changed: func() (*config.Config, error) {
		select {
		case f := <-next:
			return f()
		default:
			return nil, nil
		}
	}})
	if _, err := h.Apply(t.Context(), shop(), model.Everything()); err != nil {
		t.Fatal(err)
	}
	addr := h.Addrs()[0].String()
	for i, bad := range []func() (*config.Config, error){
		func() (*config.Config, error) { return nil, errors.New("Corefile:3: forwrad: no such plugin") },
		func() (*config.Config, error) { return conf(t, ". {\n file /nowhere/db example.org\n}"), nil },
	} {
		next <- bad
		h.look(t.Context())
		if got := answer(t, addr, "host.example."); got != "NOERROR A 10.0.0.1" {
			t.Errorf("got %s", got)
		}
		f := h.Findings()
		if len(f) != 1 || f[0].Code != flow.DNSConfigInvalid || f[0].Object != "DNS server of node node-1" || !strings.Contains(f[0].Evidence[0], []string{"forwrad", "/nowhere/db"}[i]) {
			t.Errorf("findings: %+v", f)
		}
		if got := testutil.ToFloat64(h.reloadFailed); got != float64(i+1) {
			t.Errorf("coredns_reload_failed_total is %v", got)
		}
	}
	next <- func() (*config.Config, error) {
		return conf(t, ". {\n hosts none {\n  10.0.0.2 host.example\n }\n}"), nil
	}
	h.look(t.Context())
	if got := answer(t, addr, "host.example."); got != "NOERROR A 10.0.0.2" || len(h.Findings()) != 0 {
		t.Errorf("got %s, findings %v", got, h.Findings())
	}
}

func TestPortsComeAndGoWithTheConfiguration(t *testing.T) {
	port := freePort(t)
	one := ". {\n hosts none {\n  10.0.0.1 a.example\n }\n}\n"
	two := one + fmt.Sprintf("a.example:%d {\n hosts none {\n  10.0.0.2 a.example\n }\n}\n", port)
	h := newHop(t, Options{Listen: loopback, Config: conf(t, one)})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, second := h.Addrs()[0].String(), netip.AddrPortFrom(loopback[0].Addr(), port).String()
	if err := h.adopt(conf(t, two)); err != nil {
		t.Fatal(err)
	}
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := answer(t, first, "a.example."), answer(t, second, "a.example."); a != "NOERROR A 10.0.0.1" || b != "NOERROR A 10.0.0.2" {
		t.Errorf("got %s and %s", a, b)
	}
	if got := answer(t, second, "b.example."); got != "REFUSED" {
		t.Errorf("a zone that is not served there: %s", got)
	}
	if err := h.adopt(conf(t, one)); err != nil {
		t.Fatal(err)
	}
	if len(h.Addrs()) != 1 || answer(t, first, "a.example.") != "NOERROR A 10.0.0.1" {
		t.Errorf("addresses %v", h.Addrs())
	}
}

func TestBlocksThatForwardEachHaveTheirOwnMetrics(t *testing.T) {
	world := fakeWorld(t)
	r := prometheus.NewPedanticRegistry()
	h := newHop(t, Options{Listen: loopback, Metrics: r, Config: conf(t, fmt.Sprintf("a.example.com:%d {\n forward . %s\n}\nb.example.com {\n cache\n forward . %[2]s\n}\n. {\n cache\n forward . %[2]s\n}", freePort(t), world))})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	addr := h.firstAddrs()[0].String()
	for _, name := range []string{"x.b.example.com.", "x.example.com."} {
		if got := answer(t, addr, name); got != "NOERROR A 192.0.2.1" {
			t.Errorf("%s: %s", name, got)
		}
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]bool{}
	for _, f := range families {
		if f.GetName() == "coredns_cache_misses_total" {
			for _, m := range f.Metric {
				for _, l := range m.Label {
					if l.GetName() == "zones" && m.Counter.GetValue() == 1 {
						zones[l.GetValue()] = true
					}
				}
			}
		}
	}
	if !zones["b.example.com."] || !zones["."] || len(zones) != 2 {
		t.Errorf("misses in %v", zones)
	}
	if v, err := h.Programmed(t.Context(), fromWeb("x.b.example.com.", "A")); err != nil || v.Action != flow.Pass || len(v.Findings) != 0 {
		t.Errorf("what is programmed is asked where Pods ask: %+v, %v", v, err)
	}
}

func TestABlockWithoutBindIsServedAtEveryAddressOfBothFamilies(t *testing.T) {
	port := freePort(t)
	h := newHop(t, Options{AsConfigured: true, Config: conf(t, fmt.Sprintf(".:%d {\n hosts none {\n  10.0.0.1 a.example\n }\n}", port))})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"127.0.0.1", "::1"} {
		if to == "::1" && !hasIPv6() {
			continue
		}
		if got := answer(t, netip.AddrPortFrom(netip.MustParseAddr(to), port).String(), "a.example."); got != "NOERROR A 10.0.0.1" {
			t.Errorf("%s: %s", to, got)
		}
	}
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	h := newHop(t, Options{Listen: loopback})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	port := h.Addrs()[0].Port()
	if err := h.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	return port
}

func TestANewClusterDomainIsAnsweredAtOnce(t *testing.T) {
	h := newHop(t, Options{Listen: loopback, Config: conf(t, ". {\n kubernetes cluster.local\n}")})
	if _, err := h.Apply(t.Context(), shop(), model.Everything()); err != nil {
		t.Fatal(err)
	}
	addr := h.Addrs()[0].String()
	if err := h.adopt(conf(t, ". {\n kubernetes other.test {\n  ttl 17\n }\n}")); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, addr, "cart.shop.svc.other.test."); got != "NOERROR A 10.96.0.7" {
		t.Errorf("got %s", got)
	}
	if got := answer(t, addr, "cart.shop.svc.cluster.local."); got != "REFUSED" {
		t.Errorf("the old domain: %s", got)
	}
}

func TestDeclaredAndProgrammedFollowTheConfiguration(t *testing.T) {
	world := fakeWorld(t)
	h := newHop(t, Options{Listen: loopback, Config: conf(t, `. {
 rewrite name shop.example.org cart.shop.svc.cluster.local
 hosts none {
  10.0.0.1 host.example.org
  fallthrough
 }
 template IN A templated.example.org {
  answer "{{ .Name }} 60 IN A 10.0.0.3"
 }
`+kubernetes+` forward . `+world.String()+`
}
stub.example.com {
 forward . `+world.String()+`
}`)})
	s := shop()
	if _, err := h.Apply(t.Context(), s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{"cart.shop", "answer NOERROR [A 10.96.0.7]"},
		{"shop.example.org", "answer NOERROR [A 10.96.0.7]"},
		{"host.example.org", "answer NOERROR [A 10.0.0.1]"},
		{"templated.example.org", "answer NOERROR [A 10.0.0.3]"},
		{"www.example.com", "pass"},
		{"a.stub.example.com", "pass"},
		{"nobody.shop", "answer NXDOMAIN"},
	} {
		v := h.Declared(s, fromWeb(c.name, "A"))
		if v.String() != c.want || v.Why == "" {
			t.Errorf("%s: declared %s (%s), want %s", c.name, v, v.Why, c.want)
		}
		p, err := h.Programmed(t.Context(), fromWeb(c.name, "A"))
		if err != nil || !p.Same(v) {
			t.Errorf("%s: programmed %s (%s), declared %s: %v", c.name, p, p.Why, v, err)
		}
	}
}
