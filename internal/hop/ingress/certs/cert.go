// Package certs turns TLS Secrets into certificates and keeps the last good one for each host. It owns no choice of which
// Secret serves a host (package routes does) and no connection.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podway/podway/internal/model"
)

// ErrMissing is the error of a Secret that does not exist, or is not of type kubernetes.io/tls.
var ErrMissing = errors.New("no such Secret of type kubernetes.io/tls")

// Cert is a Secret as far as TLS needs it: a certificate with its key, or the reason why there is none.
type Cert struct {
	Secret model.Name
	TLS    *tls.Certificate // nil when Err is not
	Err    error
}

// Parse reads a Secret; s is nil when there is none of that name. The certificate and the key must belong together.
// Whether it has expired is not asked: a client may trust it still, and an old certificate is better than a foreign one.
func Parse(name model.Name, s *model.Secret) *Cert {
	c := &Cert{Secret: name}
	if s == nil {
		c.Err = ErrMissing
		return c
	}
	pair, err := tls.X509KeyPair(s.Cert, s.Key)
	if err != nil {
		c.Err = fmt.Errorf("secret %s: %s", name, strings.TrimPrefix(err.Error(), "tls: "))
		return c
	}
	c.TLS = &pair
	return c
}

// Names returns the DNS names of the certificate, in lower case; none when it cannot be used.
func (c *Cert) Names() []string {
	if c.TLS == nil {
		return nil
	}
	out := make([]string, 0, len(c.TLS.Leaf.DNSNames))
	for _, n := range c.TLS.Leaf.DNSNames {
		out = append(out, strings.ToLower(n))
	}
	return out
}

// Covers reports whether a client that asked for the host accepts the name in the certificate.
func (c *Cert) Covers(host string) bool {
	if c.TLS == nil {
		return false
	}
	if label, ok := strings.CutPrefix(host, "*."); ok { // a wildcard rule: ask for any name below it
		host = "podway." + label
	}
	return c.TLS.Leaf.VerifyHostname(host) == nil
}

// NotAfter is the end of the certificate's life; the zero time when it cannot be used.
func (c *Cert) NotAfter() time.Time {
	if c.TLS == nil {
		return time.Time{}
	}
	return c.TLS.Leaf.NotAfter
}

// Leaf is the certificate itself, nil when it cannot be used.
func (c *Cert) Leaf() *x509.Certificate {
	if c.TLS == nil {
		return nil
	}
	return c.TLS.Leaf
}
