package arp

import (
	"context"
	"log/slog"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/packet"
)

// Options say where to answer.
type Options struct {
	NS         *netns.NS // nil: the process's own
	Interfaces []string  // patterns of device names, such as "eth*"; none = every one that is not made for Pods or tunnels
	Log        *slog.Logger
	Metrics    *Metrics // may be nil
}

// New makes a Responder. It opens nothing before the first Announce.
func New(o Options) *Responder {
	r := newResponder(linux{o.NS}, o.Interfaces, o.Log)
	r.metrics = o.Metrics
	return r
}

// linux is the wire of a network namespace.
type linux struct{ ns *netns.NS }

func (l linux) Interfaces() ([]packet.Interface, error) { return packet.Interfaces(l.ns) }

func (l linux) Listen(index int) (conn, error) {
	return packet.Listen(l.ns, index, packet.EtherTypeARP)
}

func (l linux) Changes(ctx context.Context) (<-chan struct{}, error) {
	return packet.Changes(ctx, l.ns)
}
