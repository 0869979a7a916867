package health

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
)

// world listens on loopback, whatever port is asked for, and remembers where.
type world struct {
	at   map[string]string // asked address -> real one
	fail map[string]bool
}

func (w *world) listen(address string) (net.Listener, error) {
	if w.fail[address] {
		return nil, errors.New("taken")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		w.at[address] = l.Addr().String()
	}
	return l, err
}

func (w *world) get(t *testing.T, address string) (int, string, body) {
	t.Helper()
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + w.at[address] + "/")
	if err != nil {
		return 0, err.Error(), body{}
	}
	defer r.Body.Close()
	var b body
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header.Get("X-Load-Balancing-Endpoint-Weight"), b
}

var (
	addrs = []netip.Addr{netip.MustParseAddr("192.168.1.1")}
	cart  = model.N("shop", "cart")
)

func TestANodeAnswersByItsReadyEndpointsAndTheProxysHealth(t *testing.T) {
	w, healthy := &world{at: map[string]string{}}, true
	s := New(w.listen, func() bool { return healthy })
	defer s.Close()
	ask := func(endpoints, status int, weight string) {
		t.Helper()
		if err := s.Set(cart, Check{cart, 32000, endpoints}, addrs); err != nil {
			t.Fatal(err)
		}
		code, got, b := w.get(t, "192.168.1.1:32000")
		if code != status || got != weight || b.LocalEndpoints != endpoints || b.Service.Name != "cart" || b.ServiceProxyHealthy != healthy {
			t.Errorf("%d endpoints: %d, weight %s, %+v; want %d", endpoints, code, got, b, status)
		}
	}
	ask(2, 200, "2")
	ask(0, 503, "0")
	ask(1, 200, "1")
	healthy = false
	ask(1, 503, "1")
	if len(w.at) != 1 {
		t.Errorf("changing the answer opened %d listeners", len(w.at))
	}
	if err := s.Set(cart, Check{}, addrs); err != nil || len(s.Names()) != 0 {
		t.Errorf("after the end: %v, %v", s.Names(), err)
	}
	if code, _, _ := w.get(t, "192.168.1.1:32000"); code != 0 {
		t.Error("a check that ended still answers")
	}
}

func TestATakenPortConcernsNobodyElseAndIsTriedAgain(t *testing.T) {
	w := &world{at: map[string]string{}, fail: map[string]bool{"192.168.1.1:32000": true}}
	s := New(w.listen, func() bool { return true })
	defer s.Close()
	if err := s.Set(cart, Check{cart, 32000, 1}, addrs); err == nil {
		t.Error("a taken port is no error")
	}
	web := model.N("shop", "web")
	if err := s.Set(web, Check{web, 32001, 1}, addrs); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := w.get(t, "192.168.1.1:32001"); code != 200 {
		t.Errorf("the other Service answers %d", code)
	}
	w.fail = nil
	if err := s.Set(cart, Check{cart, 32000, 1}, addrs); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := w.get(t, "192.168.1.1:32000"); code != 200 {
		t.Errorf("the port that was taken answers %d", code)
	}
}
