package ebpf

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
)

// elements is what some Services put into the maps.
type elements struct {
	plan *proxy.Plan
	maps map[string]map[string]string

	buf       []byte
	block     strings.Builder // strings are cut from blocks, because a full render has hundreds of thousands
	blockSize int
}

func newElements(p *proxy.Plan, size int) *elements {
	e := &elements{plan: p, maps: make(map[string]map[string]string, len(planned)), blockSize: 1 << 10}
	for _, m := range planned {
		e.maps[m] = map[string]string{}
	}
	if size > 100 {
		e.blockSize = 1 << 16
		e.maps[services], e.maps[slots] = make(map[string]string, size), make(map[string]string, size*8)
	}
	return e
}

// put takes key and value from buf, cut at keySize.
func (e *elements) put(m string, keySize int) {
	if e.block.Cap()-e.block.Len() < len(e.buf) {
		e.block = strings.Builder{}
		e.block.Grow(max(e.blockSize, len(e.buf)))
	}
	at := e.block.Len()
	e.block.Write(e.buf)
	s := e.block.String()[at:]
	e.maps[m][s[:keySize]] = s[keySize:]
}

// add puts in a Service; nil adds nothing.
func (e *elements) add(s *proxy.Service) {
	if s == nil {
		return
	}
	for _, p := range s.Ports {
		if p.Proto != flow.SCTP { // its sockets ask no program
			e.port(p)
		}
	}
}

// port puts in the frontends that a socket of this node can be served from without knowing its address: what is refused,
// dropped, open to some sources only or balanced by the source is left to the packets' rules.
func (e *elements) port(p *proxy.Port) {
	if p.Maglev {
		return
	}
	var used [2]bool
	which := byte(clusterList)
	if p.InternalLocal {
		which = localList
	}
	e.frontend(p, p.ClusterIP, which, &used)
	for _, f := range p.External {
		if f.Guarded || p.ExternalLocal && !e.plan.LocalPods(p.Is4()).Known() {
			continue
		}
		e.frontend(p, f.Addr, clusterList, &used) // clients on the node are not bound by externalTrafficPolicy
	}
	for list, ok := range used {
		if ok {
			e.list(p, byte(list))
		}
	}
	if p.Proto == flow.UDP && (used[clusterList] || used[localList]) {
		for _, to := range p.Serving {
			e.member(front{p.ClusterIP, p.Proto, servingList}, to, to)
		}
	}
}

func endpointsOf(p *proxy.Port, list byte) []netip.AddrPort {
	if list == localList {
		return p.Local
	}
	return p.Cluster
}

func (e *elements) frontend(p *proxy.Port, at netip.AddrPort, which byte, used *[2]bool) {
	n := len(endpointsOf(p, which))
	if n == 0 {
		return
	}
	used[which] = true
	s := service{list: front{p.ClusterIP, p.Proto, which}, count: uint32(n)}
	if p.Affinity > 0 {
		s.affinity = uint32(max(1, p.Affinity/time.Second))
	}
	if e.plan.Settings.MasqueradeAll || at.Addr().IsLoopback() {
		s.flags |= nodeOnly
	}
	e.buf = s.append(front{at, p.Proto, 0}.append(e.buf[:0]))
	e.put(services, frontSize)
}

// list puts in the endpoints of one list. Of two with the same address, the first answers for the address.
func (e *elements) list(p *proxy.Port, which byte) {
	name := front{p.ClusterIP, p.Proto, which}
	last := netip.Addr{}
	for i, to := range endpointsOf(p, which) {
		e.buf = binary.NativeEndian.AppendUint32(name.append(e.buf[:0]), uint32(i))
		e.buf = appendEndpoint(e.buf, to)
		e.put(slots, slotSize)
		if p.Affinity == 0 {
			continue
		}
		e.member(name, to, to)
		if to.Addr() != last {
			last = to.Addr()
			e.member(name, netip.AddrPortFrom(last, 0), to)
		}
	}
}

func (e *elements) member(list front, ask, to netip.AddrPort) {
	e.buf = appendEndpoint(appendEndpoint(list.append(e.buf[:0]), ask), to)
	e.put(members, memberSize)
}
