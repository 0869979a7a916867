package ipvs

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
)

// Fake keeps servers in memory and is as strict as the kernel about what is there already and what is not.
type Fake struct {
	mu    sync.Mutex
	state State
	// Fail, when set, is asked before each operation and may refuse it.
	Fail func(Op) error
	// Timeouts are those that were set.
	Timeouts Timeouts
}

// NewFake returns an empty host.
func NewFake() *Fake { return &Fake{state: *NewState()} }

// Close does nothing.
func (f *Fake) Close() error { return nil }

// Read implements Kernel.
func (f *Fake) Read(context.Context) (*State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &State{Device: f.state.Device, Addrs: maps.Clone(f.state.Addrs), Servers: map[Key]*Server{}}
	for k, s := range f.state.Servers {
		out.Servers[k] = s.clone()
	}
	return out, nil
}

func (s *Server) clone() *Server {
	if s == nil {
		return nil
	}
	c := *s
	c.Dests = maps.Clone(s.Dests)
	return &c
}

// Look implements Kernel.
func (f *Fake) Look(_ context.Context, k Key) (*Server, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Servers[k].clone(), nil
}

// Has implements Kernel.
func (f *Fake) Has(_ context.Context, a netip.Addr) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Addrs[a], nil
}

// SetTimeouts implements Kernel.
func (f *Fake) SetTimeouts(_ context.Context, t Timeouts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Timeouts = t
	return nil
}

// Apply implements Kernel.
func (f *Fake) Apply(_ context.Context, ops []Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range ops {
		if f.Fail != nil {
			if err := f.Fail(op); err != nil {
				return err
			}
		}
		if err := f.apply(op); err != nil {
			return fmt.Errorf("ipvs: %s: %w", op, err)
		}
	}
	return nil
}

func (f *Fake) apply(op Op) error {
	s := &f.state
	switch op.Kind {
	case AddDevice:
		s.Device = true
		return nil
	case DelDevice:
		s.Device = false
		clear(s.Addrs)
		return nil
	case AddAddr, DelAddr:
		if !s.Device {
			return ErrNotExist
		}
		if op.Kind == AddAddr {
			s.Addrs[op.IP] = true
		} else {
			delete(s.Addrs, op.IP)
		}
		return nil
	}
	have := s.Servers[op.Server.Key]
	if op.Kind == AddServer {
		if have != nil {
			return ErrExist
		}
		c := op.Server.clone()
		c.Dests = map[netip.AddrPort]Dest{}
		s.Servers[c.Key] = c
		return nil
	}
	if have == nil {
		return ErrNotExist
	}
	switch op.Kind {
	case SetServer:
		dests := have.Dests
		*have = *op.Server
		have.Dests = dests
	case DelServer:
		delete(s.Servers, have.Key)
	default:
		return have.apply(op)
	}
	return nil
}

func (s *Server) apply(op Op) error {
	d, ok := s.Dests[op.To]
	switch {
	case op.Kind == AddDest && ok:
		return ErrExist
	case op.Kind != AddDest && !ok:
		return ErrNotExist
	case op.Kind == DelDest:
		delete(s.Dests, op.To)
		return nil
	}
	d.Weight, d.Foreign = op.Weight, false
	s.Dests[op.To] = d
	return nil
}

// Connect gives a destination connections, for tests of what happens to it while it has some.
func (f *Fake) Connect(k Key, to netip.AddrPort, active, inactive uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.state.Servers[k].Dests[to]
	d.Active, d.Inactive = active, inactive
	f.state.Servers[k].Dests[to] = d
}
