package nethttp

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/hop/ingress/routes"
)

// upstream is one endpoint, spoken to in one protocol, with the connections to it. All backends that list the endpoint
// share it.
type upstream struct {
	key       upstreamKey
	transport *http.Transport
	refs      int // backends that list it; only the goroutine of Use reads it
	inFlight  atomic.Int64
	gone      atomic.Bool  // no backend lists it any more
	badUntil  atomic.Int64 // Unix nanoseconds; until then others are preferred
	failures  atomic.Int32 // connects in a row that failed
}

type upstreamKey struct {
	addr     netip.AddrPort
	protocol routes.Protocol
}

// connectError is a failure before any byte of a request was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return fmt.Sprintf("connect: %v", e.err) }
func (e *connectError) Unwrap() error { return e.err }

func newUpstream(k upstreamKey, o *Options) *upstream {
	dialer := net.Dialer{Timeout: o.ConnectTimeout, KeepAliveConfig: keepAlive}
	t := &http.Transport{
		MaxIdleConnsPerHost:    512,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true,
		ExpectContinueTimeout:  time.Second,
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ResponseHeaderTimeout:  o.AnswerTimeout,
		MaxResponseHeaderBytes: 1 << 20,
		// What to verify it against nobody says: see routes.Protocol.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		Protocols:       new(http.Protocols),
		DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
			err = o.Inside(func() error {
				c, err = dialer.DialContext(ctx, network, addr)
				return err
			})
			if err != nil {
				return nil, &connectError{err}
			}
			return c, nil
		},
	}
	switch k.protocol {
	case routes.H2C:
		t.Protocols.SetUnencryptedHTTP2(true)
	case routes.H2:
		t.Protocols.SetHTTP2(true)
	default:
		t.Protocols.SetHTTP1(true)
	}
	return &upstream{key: k, transport: t}
}

func (u *upstream) scheme() string {
	if u.key.protocol == routes.HTTPS || u.key.protocol == routes.H2 {
		return "https"
	}
	return "http"
}

// upgrades reports whether the endpoint's protocol knows Upgrade.
func (u *upstream) upgrades() bool {
	return u.key.protocol == routes.HTTP1 || u.key.protocol == routes.HTTPS
}

// begin and end count a request in flight. The connection of a request that ends after the endpoint left is closed.
func (u *upstream) begin() { u.inFlight.Add(1) }

func (u *upstream) end() {
	u.inFlight.Add(-1)
	if u.gone.Load() {
		u.transport.CloseIdleConnections()
	}
}

// connectFailed makes others be preferred for a while that doubles from 1 to 30 seconds.
func (u *upstream) connectFailed(now time.Time) {
	n := min(u.failures.Add(1)-1, 5)
	u.badUntil.Store(now.Add(min(time.Second<<n, 30*time.Second)).UnixNano())
}

func (u *upstream) answered() {
	if u.failures.Load() != 0 {
		u.failures.Store(0)
		u.badUntil.Store(0)
	}
}

// balancer is the endpoints of one backend.
type balancer struct{ ups []*upstream }

// pick takes the less loaded of two endpoints chosen at random, which keeps load even without a common counter. Those in
// tried are left out, and those that lately could not be reached come last. It returns nil when none is left.
func (b *balancer) pick(now time.Time, tried []*upstream) *upstream {
	if b == nil || len(b.ups) == 0 {
		return nil
	}
	i := rand.IntN(len(b.ups))
	x := b.next(i, now, tried, nil)
	if x == nil || len(b.ups) == 1 {
		return x
	}
	y := b.next(rand.IntN(len(b.ups)), now, tried, x)
	if y != nil && y.usable(now) == x.usable(now) && y.inFlight.Load() < x.inFlight.Load() {
		return y
	}
	return x
}

// next goes round from i to the first usable endpoint, or else to the first one.
func (b *balancer) next(i int, now time.Time, tried []*upstream, not *upstream) *upstream {
	var second *upstream
	for n := range b.ups {
		u := b.ups[(i+n)%len(b.ups)]
		if u == not || len(tried) > 0 && slices.Contains(tried, u) {
			continue
		}
		if u.usable(now) {
			return u
		}
		if second == nil {
			second = u
		}
	}
	return second
}

func (u *upstream) usable(now time.Time) bool {
	until := u.badUntil.Load()
	return until == 0 || until <= now.UnixNano()
}
