package certs

import (
	"crypto/tls"
	"strings"
	"sync/atomic"

	"github.com/podway/podway/internal/model"
)

// Store answers TLS handshakes. It holds for each host the newest certificate that could be used, so that a Secret that
// goes bad changes nothing for the host. One goroutine calls Set, Delete and SetDefault; any may call the others.
type Store struct {
	hosts    atomic.Pointer[model.Map[string, *Cert]]
	fallback atomic.Pointer[Cert]
	own      *Cert // self-signed, for who asks for nothing we know
}

// NewStore makes a store that knows no host; it serves a certificate signed by itself.
func NewStore() (*Store, error) {
	own, err := selfSigned()
	if err != nil {
		return nil, err
	}
	s := &Store{own: own}
	s.hosts.Store(&model.Map[string, *Cert]{})
	s.fallback.Store(own)
	return s, nil
}

// Set gives a host (a name, or ".example.com" for one label before it) its certificate. One that cannot be used leaves the
// last good one in place; Set reports whether c is what is served now.
func (s *Store) Set(host string, c *Cert) bool {
	if c.TLS == nil {
		return false
	}
	m := s.hosts.Load().Set(host, c)
	s.hosts.Store(&m)
	return true
}

// Delete forgets a host that no Ingress names any more.
func (s *Store) Delete(host string) {
	m := s.hosts.Load().Delete(host)
	s.hosts.Store(&m)
}

// SetDefault is the certificate for everybody else; one that cannot be used leaves the last good one, and nil means the
// self-signed one.
func (s *Store) SetDefault(c *Cert) {
	switch {
	case c == nil:
		s.fallback.Store(s.own)
	case c.TLS != nil:
		s.fallback.Store(c)
	}
}

// For returns the certificate that a client asking for the name is given: that of the host, of the wildcard one label up,
// or the default one.
func (s *Store) For(name string) *Cert {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	hosts := s.hosts.Load()
	if c, ok := hosts.Get(name); ok {
		return c
	}
	if i := strings.IndexByte(name, '.'); i > 0 {
		if c, ok := hosts.Get(name[i:]); ok {
			return c
		}
	}
	return s.fallback.Load()
}

// Default returns the certificate for everybody else.
func (s *Store) Default() *Cert { return s.fallback.Load() }

// IsSelfSigned reports whether c is the certificate that the store made itself.
func (s *Store) IsSelfSigned(c *Cert) bool { return c == s.own }

// GetCertificate is for tls.Config.
func (s *Store) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.For(hello.ServerName).TLS, nil
}

// All calls f for each host with its certificate, in unspecified order.
func (s *Store) All(f func(host string, c *Cert)) {
	for h, c := range s.hosts.Load().All() {
		f(h, c)
	}
}
