// Package zones is what a server block does with a question that is not answered where it was read: who may ask, rewrite,
// template, hosts, then the cluster's names, zone files and other servers, each with its fallthrough; of several blocks
// the one with the longest zone. It owns no socket, and nothing of the cluster but the view that it is lent.
package zones

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
)

// Upstream asks the servers of one `forward`.
type Upstream interface {
	// Exchange answers a client's query; the message is the caller's to change.
	Exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error)
	// Probed reports whether a client's question is a probe for loops that came back.
	Probed(name string) bool
}

// Options of Zones.
type Options struct {
	View    func() *answers.View                              // of the cluster; never nil
	Forward func(b *config.Block, f *config.Forward) Upstream // makes what asks; called once for each Forward of a block
	Log     *slog.Logger                                      // of questions that `log` wants written; nil = the default
}

// Client is who asks.
type Client struct {
	Addr netip.AddrPort
	TCP  bool
}

// Zones are the blocks of a configuration at work. They are safe for concurrent use.
type Zones struct {
	o      Options
	conf   *config.Config
	domain string // of the cluster, "" = none
	blocks []*block

	mu     sync.Mutex
	tables map[Socket]*Table
}

// Socket is an address to serve; an invalid Addr is every address.
type Socket struct {
	Addr netip.Addr
	Port uint16
}

// New makes the blocks; hosts and zone files are read. Those that cannot be read are in the error, and the others work
// nevertheless: such a file may come later.
func New(c *config.Config, o Options) (*Zones, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	z := &Zones{o: o, conf: c, tables: map[Socket]*Table{}}
	var errs []error
	for _, b := range c.Blocks {
		if b.Cluster != nil {
			z.domain = b.Cluster.Domain
		}
	}
	for _, b := range c.Blocks {
		made, err := z.block(b)
		errs = append(errs, err)
		z.blocks = append(z.blocks, made)
	}
	for _, s := range z.Sockets() {
		z.tables[s] = z.table(s)
	}
	return z, errors.Join(errs...)
}

// Sockets are the addresses that the blocks serve, each once, in their order.
func (z *Zones) Sockets() []Socket { return Sockets(z.conf) }

// Sockets are the addresses that a configuration's blocks serve, each once, in their order.
func Sockets(c *config.Config) []Socket {
	var out []Socket
	seen := map[Socket]bool{}
	for _, b := range c.Blocks {
		for _, k := range b.Keys {
			for _, a := range addresses(b) {
				if s := (Socket{a, k.Port}); !seen[s] {
					seen[s] = true
					out = append(out, s)
				}
			}
		}
	}
	return out
}

func addresses(b *config.Block) []netip.Addr {
	if len(b.Bind) == 0 {
		return []netip.Addr{{}}
	}
	return b.Bind
}

// Refresh reads hosts and zone files that have changed, each not more often than it says. What cannot be read stays as it
// was and is in the error.
func (z *Zones) Refresh(now time.Time) error {
	var errs []error
	for _, b := range z.blocks {
		errs = append(errs, b.refresh(now))
	}
	for _, t := range z.tables {
		t.weigh()
	}
	return errors.Join(errs...)
}

// At is the table of a socket, or nil when no block is served there.
func (z *Zones) At(s Socket) *Table { return z.tables[s] }
