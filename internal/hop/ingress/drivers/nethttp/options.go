// Package nethttp serves the ingress with the HTTP of Go's standard library: net/http's server in front, http.Transport
// behind, and between them a reverse proxy of its own. It is the driver that does everything: TLS, HTTP/2, upgrades,
// streams, retries. It owns sockets and connections; which Service answers is decided by package routes.
package nethttp

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// Options say where to listen and whom to trust. The zero value of a duration means its default.
type Options struct {
	HTTP, HTTPS []netip.AddrPort // addresses to listen on
	// Certificate answers TLS handshakes.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Trusted are the proxies in front of this one whose X-Forwarded-* headers are believed.
	Trusted []netip.Prefix
	// Inside runs f where sockets are to be made, such as in a network namespace; nil = right here.
	Inside func(f func() error) error

	ConnectTimeout time.Duration // to an endpoint; 3s
	HeaderTimeout  time.Duration // until the head of a client's request is there; 30s
	IdleTimeout    time.Duration // of a client's connection between requests; 75s
	AnswerTimeout  time.Duration // until an endpoint's answer begins; none
	Quiet          time.Duration // nothing in flight for so long ends Drain before its time; 3s
	MaxHeader      int           // bytes of a request's head; 64 KiB

	Observer Observer
	Log      *slog.Logger
}

// Observer is told what happens, for metrics. Its methods are called from many goroutines.
type Observer interface {
	Began()
	// Done ends what Began began. Route is nil when none was found; took is until the last byte.
	Done(r *routes.Route, status int, took time.Duration)
	// Retried counts a request sent to another endpoint after a failure.
	Retried(service model.Name)
	// UpstreamFailed counts a failed exchange with an endpoint: "connect", "timeout", "reset", "protocol".
	UpstreamFailed(service model.Name, reason string)
	// Refused counts requests that broke the rules of HTTP.
	Refused(reason string)
	// Handshake counts TLS handshakes; reason is "" when it went well.
	Handshake(reason string)
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.ConnectTimeout, 3*time.Second)
	def(&o.HeaderTimeout, 30*time.Second)
	def(&o.IdleTimeout, 75*time.Second)
	def(&o.Quiet, 3*time.Second)
	if o.MaxHeader == 0 {
		o.MaxHeader = 64 << 10
	}
	if o.Inside == nil {
		o.Inside = func(f func() error) error { return f() }
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// listen opens a TCP socket where the options say.
func (o *Options) listen(at netip.AddrPort) (l net.Listener, err error) {
	cfg := net.ListenConfig{KeepAliveConfig: keepAlive}
	err = o.Inside(func() error {
		l, err = cfg.Listen(context.Background(), "tcp", at.String())
		return err
	})
	return l, err
}

// keepAlive finds a dead peer within half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// nobody observes nothing.
type nobody struct{}

func (nobody) Began()                                 {}
func (nobody) Done(*routes.Route, int, time.Duration) {}
func (nobody) Retried(model.Name)                     {}
func (nobody) UpstreamFailed(model.Name, string)      {}
func (nobody) Refused(string)                         {}
func (nobody) Handshake(string)                       {}
