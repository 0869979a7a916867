package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/model"
)

// left is what is known of the connections of one frontend whose rules changed.
type left struct {
	serving []netip.AddrPort // endpoints that may keep their connections
	old     []netip.AddrPort // endpoints that had connections before, for frontends that the host shares with others
	shared  bool             // a NodePort: the host's own processes may use the port when no Service does
}

// lasting are the protocols whose clients go on from the same port when their server is gone: the kernel translates a
// connection once, so they would go on reaching an endpoint that is gone, and keep the entry alive by that. An SCTP client
// does so with its next INIT. TCP clients come back from another port.
var lasting = []flow.Proto{flow.UDP, flow.SCTP}

// forget deletes the connections of those protocols that the new rules do not stand behind. was is nil when it is not
// known what was served: then every frontend is looked at, and still only stale connections go.
func (p *Proxy) forget(ctx context.Context, was, now *Plan) (int, error) {
	if p.connections == nil {
		return 0, nil
	}
	deleted := 0
	for _, proto := range lasting {
		stale := map[netip.AddrPort]*left{}
		if was == nil {
			for s := range now.Services.Values() {
				s.leaves(proto, nil, stale)
			}
		} else {
			model.Changed(was.Services, now.Services, func(n model.Name) { now.Services.At(n).leaves(proto, was.Services.At(n), stale) })
		}
		if len(stale) == 0 {
			continue
		}
		n, err := p.connections.Delete(ctx, proto.Number(), func(e conntrack.Entry) bool {
			l := stale[e.Dst]
			return l != nil && l.stale(e.Dst, e.AnswerSrc)
		})
		if deleted += n; err != nil {
			return deleted, fmt.Errorf("forget stale connections: %w", err)
		}
	}
	return deleted, nil
}

// stale decides about one connection. One that was never translated is stale once there are endpoints: it began before
// the rules did. Without endpoints only translated ones go, so that nobody else's traffic is touched.
func (l *left) stale(original, answers netip.AddrPort) bool {
	switch {
	case contains(l.serving, answers):
		return false
	case len(l.serving) > 0:
		return true
	case l.shared:
		return contains(l.old, answers)
	}
	return answers != original
}

// leaves adds the frontends whose connections may have become stale between two plans of a Service; either may be nil.
func (s *Service) leaves(proto flow.Proto, old *Service, into map[netip.AddrPort]*left) {
	before := old.portsOf(proto)
	for vip, port := range s.portsOf(proto) {
		was := before[vip]
		delete(before, vip)
		if was != nil && slices.Equal(was.Serving, port.Serving) && sameFrontends(was, port) {
			continue
		}
		port.leave(was, into)
	}
	for _, port := range before { // gone
		gone := &Port{ClusterIP: port.ClusterIP}
		gone.leave(port, into)
	}
}

func (s *Service) portsOf(proto flow.Proto) map[netip.AddrPort]*Port {
	out := map[netip.AddrPort]*Port{}
	if s != nil {
		for _, p := range s.Ports {
			if p.Proto == proto {
				out[p.ClusterIP] = p
			}
		}
	}
	return out
}

func sameFrontends(a, b *Port) bool {
	return slices.EqualFunc(a.External, b.External, func(x, y Frontend) bool { return x.Kind == y.Kind && x.Addr == y.Addr })
}

func (p *Port) leave(was *Port, into map[netip.AddrPort]*left) {
	var old []netip.AddrPort
	if was != nil {
		old = was.Serving
	}
	put := func(at netip.AddrPort, serving []netip.AddrPort, shared bool) {
		if have := into[at]; have != nil { // the frontend moved from one Service to another: the new owner's word counts
			have.serving = append(slices.Clone(have.serving), serving...)
			slices.SortFunc(have.serving, netip.AddrPort.Compare)
			have.old = append(slices.Clone(have.old), old...)
			slices.SortFunc(have.old, netip.AddrPort.Compare)
			return
		}
		into[at] = &left{serving: serving, old: old, shared: shared}
	}
	put(p.ClusterIP, p.Serving, false)
	for _, f := range p.External {
		put(f.Addr, p.Serving, f.Kind == NodePort)
	}
	if was == nil {
		return
	}
	for _, f := range was.External {
		if !slices.ContainsFunc(p.External, func(x Frontend) bool { return x.Addr == f.Addr }) {
			put(f.Addr, nil, f.Kind == NodePort)
		}
	}
}
