package nettest

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// The addresses of a World. Segment N uses 10.(90+N).0.0/24 and fd00:(90+N)::/64; its router, the outside host, is .1.
var (
	ClientNet4 = netip.MustParsePrefix("203.0.113.0/24") // behind the outside host; each of its addresses can be a client
	ClientNet6 = netip.MustParsePrefix("fd00:203::/64")
)

// World is one set of nodes, Pods and the outside host. Its methods are not safe for concurrent use, except those of
// different Hosts. Close ends it; so does the end of the process.
type World struct {
	sw       *Host // the namespace of the bridges: no address in it
	outside  *Host
	segments []int // bridge index per segment
	hosts    []*Host
	nodes    int
	veths    int
	groups   *groups // nil = nobody has a control group of its own

	mu      sync.Mutex
	servers []*Server
	fresh   []end // ends of veth pairs that may not carry packets yet
}

// New makes a world of one segment with the outside host on it.
func New() (*World, error) {
	w := &World{}
	if err := w.start(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *World) start() (err error) {
	if w.sw, err = w.host("switch"); err != nil {
		return err
	}
	if w.outside, err = w.host("outside"); err != nil {
		return err
	}
	// A local route lets a client bind any address of an IPv4 network; IPv6 wants this setting as well.
	if err := w.outside.sysctls("net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1", "net/ipv6/ip_nonlocal_bind=1"); err != nil {
		return err
	}
	for _, p := range []netip.Prefix{ClientNet4, ClientNet6} {
		if err := w.outside.Owns(p); err != nil {
			return err
		}
	}
	if _, err := w.AddSegment(); err != nil {
		return err
	}
	return w.outside.disown()
}

// Outside is the host beyond the nodes: the router of every segment and the owner of the client networks.
func (w *World) Outside() *Host { return w.outside }

// AddSegment makes another layer-2 segment, reached from the others through the outside host, and returns its number.
func (w *World) AddSegment() (int, error) {
	n := len(w.segments)
	if n == mostSegments {
		return 0, fmt.Errorf("nettest: no more than %d segments", mostSegments)
	}
	off := false
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("seg%d", n)}, MulticastSnooping: &off}
	if err := w.sw.nl.LinkAdd(br); err != nil {
		return 0, fmt.Errorf("nettest: add segment %d: %w", n, err)
	}
	if err := w.sw.nl.LinkSetUp(br); err != nil {
		return 0, fmt.Errorf("nettest: segment %d up: %w", n, err)
	}
	w.segments = append(w.segments, br.Index)
	dev := fmt.Sprintf("eth%d", n)
	return n, w.plug(w.outside, n, dev, segmentAddr(n, 1, true), segmentAddr(n, 1, false))
}

// AddNode makes a node with device eth0 on a segment and a default route to the outside host. Without addresses it gets
// host number 11, 12, ... of the segment in both families.
func (w *World) AddNode(name string, segment int, addrs ...netip.Prefix) (*Host, error) {
	if segment >= len(w.segments) {
		return nil, fmt.Errorf("nettest: node %s: no segment %d", name, segment)
	}
	if len(addrs) == 0 {
		addrs = NodeAddrs(segment, w.nodes)
	}
	h, err := w.host(name)
	if err != nil {
		return nil, err
	}
	if err := h.sysctls("net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1"); err != nil {
		return nil, err
	}
	if err := w.plug(h, segment, "eth0", addrs...); err != nil {
		return nil, err
	}
	if w.groups != nil {
		if h.cgroup, err = w.groups.add(name); err != nil {
			return nil, fmt.Errorf("nettest: node %s: %w", name, err)
		}
	}
	w.nodes++
	for _, gw := range []netip.Addr{segmentAddr(segment, 1, true).Addr(), segmentAddr(segment, 1, false).Addr()} {
		if err := h.defaultVia(gw, "eth0"); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// NodeAddrs are the addresses that AddNode gives the i-th node (from 0) of a world by default.
func NodeAddrs(segment, i int) []netip.Prefix {
	return []netip.Prefix{segmentAddr(segment, 11+i, true), segmentAddr(segment, 11+i, false)}
}

func segmentAddr(segment, host int, is4 bool) netip.Prefix {
	if is4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(90 + segment), 0, byte(host)}), 24)
	}
	// The number is written as people write it: host 11 of segment 0 is fd00:90::11.
	return netip.MustParsePrefix(fmt.Sprintf("fd00:%d::%d/64", 90+segment, host))
}

// plug joins h to a segment by a veth pair, the far end being a port of the bridge.
func (w *World) plug(h *Host, segment int, dev string, addrs ...netip.Prefix) error {
	w.veths++
	port := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("p%d", w.veths), MasterIndex: w.segments[segment]},
		PeerName:  dev, PeerNamespace: netlink.NsFd(h.ns.Fd()),
	}
	if err := w.sw.nl.LinkAdd(port); err != nil {
		return fmt.Errorf("nettest: plug %s into segment %d: %w", h.Name, segment, err)
	}
	if err := h.configure(dev, addrs...); err != nil {
		return err
	}
	if err := w.sw.nl.LinkSetUp(port); err != nil {
		return fmt.Errorf("nettest: plug %s into segment %d: %w", h.Name, segment, err)
	}
	w.wired(end{w.sw, port.Name}, end{h, dev})
	return nil
}

// host makes a namespace with loopback up and no waiting for duplicate addresses.
func (w *World) host(name string) (*Host, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	h := &Host{Name: name, ns: ns, world: w}
	w.hosts = append(w.hosts, h)
	err = ns.Do(func() error {
		if h.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open rtnetlink: %w", err)
		}
		for _, s := range []string{
			"net/ipv6/conf/all/accept_dad=0", "net/ipv6/conf/default/accept_dad=0",
			"net/ipv6/conf/default/router_solicitations=0", "net/ipv4/conf/all/rp_filter=0",
		} {
			if err := writeSysctl(s); err != nil {
				return err
			}
		}
		lo, err := h.nl.LinkByName("lo")
		if err != nil {
			return err
		}
		return h.nl.LinkSetUp(lo)
	})
	if err != nil {
		return nil, fmt.Errorf("nettest: host %s: %w", name, err)
	}
	return h, nil
}

// Close stops the servers and lets go of all namespaces; the kernel takes the devices away with them.
func (w *World) Close() error {
	w.mu.Lock()
	servers := w.servers
	w.servers = nil
	w.mu.Unlock()
	for _, s := range servers {
		s.Close()
	}
	var errs []error
	for _, h := range w.hosts {
		if h.nl != nil {
			h.nl.Close()
		}
		errs = append(errs, h.ns.Close())
	}
	w.hosts = nil
	if w.groups != nil {
		errs = append(errs, w.groups.close())
		w.groups = nil
	}
	return errors.Join(errs...)
}
