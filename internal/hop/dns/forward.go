package dns

import (
	"context"
	"errors"
	"strings"

	mdns "github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/upstream"
)

// forwarder makes what asks the servers of a forward.
func (h *Hop) forwarder(c *config.Config, b *config.Block, f *config.Forward) (*upstream.Forwarder, error) {
	o, err := upstream.FromConfig(*f, b.Cache)
	if err != nil {
		return nil, err
	}
	o.Own, o.In, o.Metrics, o.Zones = h.o.own(c), h.o.In, h.forwarding, strings.Join(b.Zones(), " ")
	return upstream.New(o), nil
}

// nobody is asked for names outside the cluster.
type nobody struct{}

func (nobody) Exchange(context.Context, *mdns.Msg) (*mdns.Msg, error) {
	return nil, errors.New("dns: no other server is asked here")
}

func (nobody) Probed(string) bool { return false }
