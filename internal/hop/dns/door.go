package dns

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/server"
	"github.com/podway/podway/internal/hop/dns/zones"
	"github.com/podway/podway/internal/model"
)

// door is the sockets behind which one table of blocks stands. The table is swapped, the sockets stay.
type door struct {
	at     zones.Socket
	table  atomic.Pointer[zones.Table]
	server *server.Server
}

var everything = model.Everything()

// arrange gives each socket of a configuration its door: one that is there already gets the new table, and those that are
// no longer named are closed. Nothing is opened yet.
func (h *Hop) arrange(s *serving) {
	var doors []*door
	for _, at := range s.zones.Sockets() {
		addrs := h.o.listens(at)
		if len(addrs) == 0 {
			continue
		}
		i := slices.IndexFunc(h.doors, func(d *door) bool { return d.at == at })
		if i >= 0 {
			h.doors[i].table.Store(s.zones.At(at))
			doors = append(doors, h.doors[i])
			continue
		}
		doors = append(doors, h.door(at, addrs, s.zones.At(at)))
	}
	for _, d := range h.doors {
		if !slices.Contains(doors, d) {
			go closeDoor(d)
		}
	}
	h.doors = doors
}

func closeDoor(d *door) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := d.server.Close(ctx); err != nil {
		slog.Warn("close sockets that the configuration no longer names", "hop", "dns", "err", err)
	}
}

// listens are the addresses to open for a socket of the configuration.
func (o Options) listens(at zones.Socket) []netip.AddrPort {
	switch {
	case o.AsConfigured && at.Addr.IsValid():
		return []netip.AddrPort{netip.AddrPortFrom(at.Addr, at.Port)}
	case o.AsConfigured: // a socket is of one family
		all := []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port)}
		if hasIPv6() {
			all = append(all, netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port))
		}
		return all
	case at.Port == config.Port && !at.Addr.IsValid():
		return o.Listen
	}
	var out []netip.AddrPort
	for _, l := range o.Listen {
		if a := netip.AddrPortFrom(l.Addr(), at.Port); (!at.Addr.IsValid() || at.Addr == l.Addr()) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// hasIPv6 reports whether the machine has IPv6 at all.
var hasIPv6 = sync.OnceValue(func() bool {
	c, err := net.ListenPacket("udp6", "[::]:0")
	if err == nil {
		c.Close()
	}
	return err == nil
})

func (h *Hop) door(at zones.Socket, listen []netip.AddrPort, t *zones.Table) *door {
	d := &door{at: at}
	d.table.Store(t)
	d.server = server.New(server.Options{Listen: listen, In: h.o.In, Metrics: h.metrics, Transfer: h.transfer,
		View: func() *answers.View { return d.table.Load().View() },
		Cached: func(a answers.Asked, dst, msg []byte, turn uint32, now time.Time) ([]byte, int, bool) {
			return d.table.Load().Cached(a, dst, msg, turn, now)
		},
		Handler: func(ctx context.Context, q *dns.Msg, from netip.AddrPort, tcp bool) (*dns.Msg, answers.Zone) {
			return d.table.Load().Serve(ctx, q, from, tcp)
		}})
	return d
}

// listen opens the sockets that are missing; h.mu is held.
func (h *Hop) listen(ctx context.Context) error {
	var errs []error
	for _, d := range h.doors {
		errs = append(errs, d.server.Listen(ctx))
	}
	h.failed = errors.Join(errs...)
	if h.follow == nil && len(h.doors) > 0 {
		var life context.Context
		life, h.follow = context.WithCancel(context.Background())
		h.followed.Go(func() { h.followFiles(life) })
	}
	return h.failed
}

// lookEvery is how often files are looked at for changes.
const lookEvery = time.Second

// followFiles takes changes of the configuration and of the files that it names until life ends.
func (h *Hop) followFiles(life context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-life.Done():
			return
		case now := <-tick.C:
			err := h.serving.Load().zones.Refresh(now)
			if err == nil {
				said = ""
			} else if err.Error() != said {
				said = err.Error()
				slog.Warn("a file of the configuration cannot be read; what was read last stays", "hop", "dns", "err", err)
			}
			h.look(life)
		}
	}
}

// look takes a changed configuration.
func (h *Hop) look(ctx context.Context) {
	if h.o.Changed == nil {
		return
	}
	c, err := h.o.Changed()
	if err == nil && c == nil {
		return
	}
	if err == nil {
		err = h.adopt(c)
	}
	h.mu.Lock()
	h.invalid = err
	if err == nil {
		err = h.listen(ctx)
	}
	invalid := h.invalid
	h.mu.Unlock()
	switch {
	case invalid != nil:
		h.reloadFailed.Inc()
		slog.Error("changed configuration is not valid; the one before stays", "hop", "dns", "err", invalid)
	case err != nil:
		slog.Error("listen where the changed configuration says; will retry", "hop", "dns", "err", err)
	default:
		slog.Info("changed configuration is in force", "hop", "dns", "blocks", len(c.Blocks))
	}
}
