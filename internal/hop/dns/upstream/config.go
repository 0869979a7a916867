package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/upstream/link"
)

var policies = map[config.Policy]Policy{config.ByRoundTrip: Fastest, config.Random: Random, config.RoundRobin: RoundRobin, config.Sequential: Sequential}

// FromConfig is the Options of one Forward of a block with that cache; nil = nothing is kept. What the configuration does
// not say (Own, In, Metrics, Zones) is the caller's to add. It reads the files of certificates.
func FromConfig(f config.Forward, c *config.Cache) (Options, error) {
	policy, ok := policies[f.Policy]
	if !ok {
		return Options{}, fmt.Errorf("%s: %s: unknown policy %q", f.At, f.Plugin, f.Policy)
	}
	o := Options{Policy: policy, MaxConcurrent: f.MaxConcurrent, MaxFails: f.MaxFails, Idle: f.Expire, Check: f.HealthCheck,
		Failover: f.Failover, FailFast: f.FailFast, Cache: cacheFrom(c)}
	if f.MaxFails == 0 {
		o.MaxFails = -1
	}
	for _, t := range f.To {
		s := Server{Addr: t.Addr, File: t.File}
		switch {
		case t.TLS:
			var err error
			if s.TLS, err = tlsOf(f.TLS, t); err != nil {
				return Options{}, fmt.Errorf("%s: %s: %w", f.At, f.Plugin, err)
			}
			s.Proto = link.TLS
		case f.ForceTCP:
			s.Proto = link.TCP
		}
		o.Servers = append(o.Servers, s)
	}
	return o, nil
}

// tlsOf is the client's side of TLS to one target.
func tlsOf(t config.TLS, to config.Target) (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if to.ServerName != "" {
		c.ServerName = to.ServerName
	}
	if c.ServerName == "" {
		c.ServerName = to.Addr.Addr().String()
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: %s holds no certificate", t.CA)
		}
	}
	if t.Cert != "" || t.Key != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// orNever is a setting of which 0 means that a thing is not done.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func cacheFrom(c *config.Cache) CacheOptions {
	if c == nil {
		return CacheOptions{Entries: -1}
	}
	o := CacheOptions{MaxTTL: c.Success.Max, MinTTL: c.Success.Min, MaxNegative: c.Denial.Max, MinNegative: c.Denial.Min,
		Stale: orNever(c.Stale), StaleAtOnce: c.StaleAtOnce, Failures: orNever(c.ServFail), KeepTTL: c.KeepTTL,
		Zones: c.Zones, NoSuccess: c.Success.Off, NoDenial: c.Denial.Off, Prefetch: -1}
	if c.Success.Capacity > 0 || c.Denial.Capacity > 0 {
		o.Entries = c.Success.Capacity + c.Denial.Capacity
	}
	if c.Prefetch.Amount > 0 {
		o.Prefetch, o.Percent = c.Prefetch.Amount, c.Prefetch.Percent
	}
	return o
}
