// Package ipvs is the door to the kernel's IP virtual servers, spoken over netlink without ipvsadm, and to the dummy device
// that holds the virtual servers' addresses so that packets to them are delivered here. It knows nothing of Services.
// Everything but the files ending in _linux.go builds on any operating system.
package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Transport protocol numbers.
const (
	TCP  uint8 = 6
	UDP  uint8 = 17
	SCTP uint8 = 132
)

// Schedulers are the kernel's ways to choose a destination.
var Schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh"}

// ErrForeign says that the device's name belongs to a device of another kind.
var ErrForeign = errors.New("a device of another kind has this name")

// Key tells virtual servers apart. Servers for packets with a mark have none; they are never listed.
type Key struct {
	Addr  netip.AddrPort
	Proto uint8
}

// String is "tcp 10.96.0.7:80".
func (k Key) String() string { return strings.ToLower(protoName(k.Proto)) + " " + k.Addr.String() }

// Compare orders keys by protocol and address, as ipvsadm lists them.
func (k Key) Compare(o Key) int {
	if k.Proto != o.Proto {
		return int(k.Proto) - int(o.Proto)
	}
	return k.Addr.Compare(o.Addr)
}

// Server is a virtual server: connections to its address are spread over its destinations.
type Server struct {
	Key
	Scheduler string
	// Fallback lets the schedulers sh and mh take another destination than the hash says when that one takes no connections.
	Fallback bool
	// Persistence is how long a client that is idle keeps its destination, in whole seconds; 0 = not at all.
	Persistence time.Duration
	// Dests are the destinations by address.
	Dests map[netip.AddrPort]Dest
}

// Dest is one destination. Its packets' addresses are rewritten (the forwarding method "Masq").
type Dest struct {
	Weight uint32 // 0 = no new connections
	// Connections that it has, filled in when read: those that are open, and those that end or are not connections at all.
	Active, Inactive uint32
	Foreign          bool // another forwarding method than Masq, or limits: somebody else's
}

// SameServer reports whether two servers agree apart from their destinations.
func (s *Server) SameServer(o *Server) bool {
	return s.Key == o.Key && s.Scheduler == o.Scheduler && s.Fallback == o.Fallback && s.Persistence == o.Persistence
}

// Targets are the destinations that take new connections, sorted.
func (s *Server) Targets() []netip.AddrPort {
	var out []netip.AddrPort
	for a, d := range s.Dests {
		if d.Weight > 0 {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}

// State is what a host has.
type State struct {
	Device  bool // the dummy device is there
	Addrs   map[netip.Addr]bool
	Servers map[Key]*Server
}

// NewState returns an empty state.
func NewState() *State { return &State{Addrs: map[netip.Addr]bool{}, Servers: map[Key]*Server{}} }

// Timeouts are how long idle connections are remembered; 0 = as the kernel has it. They are one for all virtual servers.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

// OpKind is a kind of Op.
type OpKind uint8

// The kinds of operations.
const (
	AddDevice OpKind = iota // no error when it is there
	DelDevice               // with its addresses; no error when it is not there
	AddAddr                 // no error when it is there
	DelAddr                 // no error when it is not there
	AddServer               // without destinations
	SetServer               // everything but its destinations
	DelServer               // with its destinations
	AddDest
	SetDest
	DelDest
)

// Op is one operation.
type Op struct {
	Kind   OpKind
	IP     netip.Addr     // of AddAddr, DelAddr
	Server *Server        // of the others
	To     netip.AddrPort // the destination
	Weight uint32
}

// String says what the operation does, for errors.
func (o Op) String() string {
	words := [...]string{"add device", "delete device", "add address", "delete address", "add server", "change server", "delete server",
		"add destination", "change destination", "delete destination"}
	s := words[o.Kind]
	switch o.Kind {
	case AddDevice, DelDevice:
	case AddAddr, DelAddr:
		s += " " + o.IP.String()
	case AddDest, SetDest, DelDest:
		s += fmt.Sprintf(" %s of server %s", o.To, o.Server.Key)
	default:
		s += " " + o.Server.Key.String()
	}
	return s
}

// Kernel is the door: the real one is opened by Open, Fake stands in for it on any operating system.
type Kernel interface {
	// Apply carries out operations in their order and stops at the first that fails: IPVS has no transactions.
	Apply(ctx context.Context, ops []Op) error
	// Read returns everything.
	Read(ctx context.Context) (*State, error)
	// Look returns one virtual server, nil when there is none.
	Look(ctx context.Context, k Key) (*Server, error)
	// Has reports whether the device has an address.
	Has(ctx context.Context, a netip.Addr) (bool, error)
	// SetTimeouts changes the timeouts that are not 0 and differ.
	SetTimeouts(ctx context.Context, t Timeouts) error
	Close() error
}

// ErrExist and ErrNotExist are what the kernel and the Fake say of a server or destination that is there already, or not.
var (
	ErrExist    = errors.New("it exists already")
	ErrNotExist = errors.New("it does not exist")
)
