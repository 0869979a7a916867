// Package health answers on the healthCheckNodePorts of Services with externalTrafficPolicy Local: load balancers ask there
// which nodes have endpoints. It owns the listeners; the proxy says what to answer.
package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/podway/podway/internal/model"
)

// Check is one Service's check.
type Check struct {
	Service   model.Name
	Port      uint16
	Endpoints int // ready ones on this node
}

// Server keeps one listener for each check and node address. Its methods are safe for concurrent use.
type Server struct {
	listen  func(address string) (net.Listener, error)
	healthy func() bool

	mu     sync.Mutex
	checks map[model.Name]*answerer
}

// answerer answers for one Service.
type answerer struct {
	server    *Server
	addrs     []netip.Addr
	http      *http.Server
	mu        sync.Mutex
	check     Check
	listening int
}

// New returns a server without checks. listen opens a TCP listener in the node's network namespace; healthy says whether
// the proxy is able to program rules.
func New(listen func(address string) (net.Listener, error), healthy func() bool) *Server {
	return &Server{listen: listen, healthy: healthy, checks: map[model.Name]*answerer{}}
}

// Set makes a Service answer c on the addresses, or no more when c.Port is 0. A port that cannot be opened is an error;
// other Services' checks are not concerned, and the next Set tries again.
func (s *Server) Set(name model.Name, c Check, addrs []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.checks[name]
	if have != nil && have.check.Port == c.Port && slices.Equal(have.addrs, addrs) && have.listening == len(addrs) {
		have.set(c)
		return nil
	}
	if have != nil {
		have.http.Close()
		delete(s.checks, name)
	}
	if c.Port == 0 || len(addrs) == 0 {
		return nil
	}
	a := &answerer{server: s, addrs: slices.Clone(addrs), check: c}
	a.http = &http.Server{Handler: a, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	s.checks[name] = a
	return a.open()
}

func (a *answerer) open() error {
	var errs []error
	for _, addr := range a.addrs {
		l, err := a.server.listen(netip.AddrPortFrom(addr, a.check.Port).String())
		if err != nil {
			errs = append(errs, fmt.Errorf("health check of Service %s: %w", a.check.Service, err))
			continue
		}
		a.listening++
		go a.http.Serve(l) // ends when the server is closed
	}
	return errors.Join(errs...)
}

func (a *answerer) set(c Check) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.check = c
}

// Names are the Services that are answered for, in order.
func (s *Server) Names() []model.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.checks), model.Name.Compare)
}

// Close ends all checks.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, a := range s.checks {
		a.http.Close()
		delete(s.checks, n)
	}
}

// body is what load balancers and people read; the fields are kube-proxy's.
type body struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// ServeHTTP answers 200 when this node has ready endpoints and the proxy can lead to them, else 503 (KEP-3836).
func (a *answerer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	c := a.check
	a.mu.Unlock()
	b := body{LocalEndpoints: c.Endpoints, ServiceProxyHealthy: a.server.healthy()}
	b.Service.Namespace, b.Service.Name = c.Service.Namespace, c.Service.Name
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(c.Endpoints))
	if c.Endpoints == 0 || !b.ServiceProxyHealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(b) // the client may be gone
}
