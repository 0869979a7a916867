package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/conntrack"
)

const (
	roomEvery = 10 * time.Second // between two looks
	roomTight = 0.95             // of the table is in use
	roomCalm  = time.Minute      // after the last drop
)

// room follows how full the table of connections is.
type room struct {
	looked   time.Time // zero = never
	last     conntrack.Room
	dropped  time.Time // when the last drop was seen
	lost     uint64    // packets dropped since then began
	findings []flow.Finding
}

// look asks the kernel how full the table is, now and then. A table that cannot be asked is not a fault of the node.
func (p *Proxy) look(ctx context.Context) {
	c, ok := p.connections.(conntrack.Counter)
	if !ok || time.Since(p.room.looked) < roomEvery {
		return
	}
	now, err := c.Room(ctx)
	if err != nil {
		return
	}
	p.room.see(now, p.config.Node)
	p.metrics.room(now)
}

// see compares with the last look.
func (r *room) see(now conntrack.Room, node string) {
	first := r.looked.IsZero()
	if more := now.Dropped - r.last.Dropped; !first && now.Dropped > r.last.Dropped {
		if time.Since(r.dropped) > roomCalm {
			r.lost = 0
		}
		r.lost += more
		r.dropped = time.Now()
	}
	r.looked, r.last = time.Now(), now
	r.findings = nil
	full := fmt.Sprintf("Node %s tracks %d connections of at most %d (nf_conntrack_max)", node, now.Entries, now.Max)
	switch {
	case !r.dropped.IsZero() && time.Since(r.dropped) <= roomCalm:
		r.findings = []flow.Finding{finding(flow.ConntrackFull, "node "+node,
			fmt.Sprintf("%s and dropped %d packets for want of room; %d connections without answer had to make room so far.", full, r.lost, now.Evicted))}
	case now.Max > 0 && float64(now.Entries) >= roomTight*float64(now.Max):
		f := finding(flow.ConntrackFull, "node "+node, full+"; it drops new connections when there are no more.")
		f.Severity = flow.Warning
		r.findings = []flow.Finding{f}
	}
}
