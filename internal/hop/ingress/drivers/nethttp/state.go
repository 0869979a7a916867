package nethttp

import (
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// state is a table with the endpoints of its backends. It is swapped as a whole: a request uses the one it began with.
type state struct {
	table     *routes.Table
	balancers model.Map[routes.BackendKey, *balancer]
}

// Use swaps the table in. It costs the backends that changed; requests in flight go on undisturbed. Idle connections to
// endpoints that are in no backend any more are closed. Only one goroutine may call Use.
func (s *Server) Use(t *routes.Table) {
	old := s.state.Load()
	if old == nil {
		old = &state{}
	}
	next := &state{table: t, balancers: old.balancers}
	var dropped []*balancer
	routes.ChangedBackends(old.table, t, func(k routes.BackendKey) {
		if b := old.balancers.At(k); b != nil {
			dropped = append(dropped, b)
		}
		if b := t.Backend(k); b != nil && len(b.Endpoints) > 0 {
			next.balancers = next.balancers.Set(k, s.acquire(b))
		} else {
			next.balancers = next.balancers.Delete(k)
		}
	})
	s.state.Store(next)
	for _, b := range dropped {
		s.release(b)
	}
}

// Table is the table in use, nil before the first Use.
func (s *Server) Table() *routes.Table {
	if st := s.state.Load(); st != nil {
		return st.table
	}
	return nil
}

func (s *Server) acquire(b *routes.Backend) *balancer {
	out := &balancer{ups: make([]*upstream, 0, len(b.Endpoints))}
	for _, at := range b.Endpoints {
		k := upstreamKey{addr: at, protocol: b.Protocol}
		u := s.upstreams[k]
		if u == nil {
			u = newUpstream(k, &s.opt)
			s.upstreams[k] = u
		}
		u.refs++
		out.ups = append(out.ups, u)
	}
	return out
}

func (s *Server) release(b *balancer) {
	for _, u := range b.ups {
		u.refs--
		if u.refs == 0 {
			delete(s.upstreams, u.key)
			u.gone.Store(true)
			u.transport.CloseIdleConnections()
		}
	}
}
