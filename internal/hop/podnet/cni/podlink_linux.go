package cni

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// podLink is a veth pair between the node and a Pod.
type podLink struct {
	node    *plugin
	pod     plugin // the same doors, in the Pod
	ns      *netns.NS
	netns   string // the Pod's, as the runtime names it
	config  podnet.NodeConfig
	ifname  string // in the Pod
	veth    string // on the node
	alias   string
	podMAC  link.MAC
	hostMAC link.MAC
	ends    []end
}

// patience is how long the kernel may take to notice that a pair is up; it takes milliseconds.
const patience = 5 * time.Second

// end is an address of the Pod and the one of the node that is its gateway.
type end struct{ addr, gateway netip.Addr }

func (p *plugin) newPodLink(args *skel.CmdArgs, ns *netns.NS, config podnet.NodeConfig) (*podLink, error) {
	l := &podLink{
		node: p, pod: plugin{step: p.step, sysctl: sysctl.Open(ns)}, ns: ns, netns: args.Netns, config: config,
		ifname: args.IfName, veth: podnet.VethName(args.ContainerID, args.IfName),
	}
	l.podMAC, l.hostMAC = podnet.MAC("pod", l.veth), podnet.MAC("host", l.veth)
	var err error
	if l.pod.links, err = link.Open(ns); err != nil {
		return nil, err
	}
	if l.pod.routes, err = route.Open(ns); err != nil {
		l.pod.links.Close()
		return nil, err
	}
	return l, nil
}

func (l *podLink) close() {
	l.pod.links.Close()
	l.pod.routes.Close()
}

// make makes the pair and both its ends. The alias comes last: it says that all before it is done.
func (l *podLink) make() error {
	l.node.step("pair")
	err := l.node.links.AddPair(link.Pair{
		Name: l.veth, Peer: l.ifname, MTU: l.config.MTU, MAC: l.hostMAC, PeerMAC: l.podMAC, PeerNS: l.ns,
	})
	if err != nil {
		return err
	}
	if err := l.makePodEnd(); err != nil {
		return err
	}
	if err := l.makeHostEnd(); err != nil {
		return err
	}
	if err := l.await(); err != nil {
		return err
	}
	l.node.step("alias")
	return l.node.links.SetAlias(l.veth, l.alias)
}

// await returns when the first packet will arrive.
func (l *podLink) await() error {
	if err := l.node.links.AwaitRunning(l.veth, patience); err != nil {
		return err
	}
	if err := l.pod.links.AwaitRunning(l.ifname, patience); err != nil {
		return err
	}
	for _, e := range l.ends {
		if err := l.node.routes.AwaitLocal(e.gateway, patience); err != nil {
			return err
		}
		if err := l.pod.routes.AwaitLocal(e.addr, patience); err != nil {
			return err
		}
	}
	return nil
}

// makePodEnd gives the Pod its addresses and, by the gateway's permanent neighbour entry, the way out.
func (l *podLink) makePodEnd() error {
	l.pod.step("loopback")
	if err := l.pod.links.SetUp("lo", true); err != nil {
		return err
	}
	if err := l.pod.quiet(l.ifname, l.has6()); err != nil {
		return err
	}
	if err := l.pod.up(l.ifname, l.ends, func(e end) netip.Addr { return e.addr }); err != nil {
		return err
	}
	for _, e := range l.ends {
		if err := l.pod.neighbour(l.ifname, e.gateway, l.hostMAC); err != nil {
			return err
		}
		if err := l.pod.route(route.Route{Dst: single(e.gateway), Device: l.ifname}); err != nil {
			return err
		}
		if err := l.pod.route(route.Route{Dst: everything(e.addr), Via: e.gateway, Device: l.ifname}); err != nil {
			return err
		}
	}
	return nil
}

// makeHostEnd makes the node answer as the Pod's gateway and know the way to the Pod.
func (l *podLink) makeHostEnd() error {
	if err := l.node.quiet(l.veth, l.has6()); err != nil {
		return err
	}
	if err := l.node.up(l.veth, l.ends, func(e end) netip.Addr { return e.gateway }); err != nil {
		return err
	}
	for _, e := range l.ends {
		if err := l.node.neighbour(l.veth, e.addr, l.podMAC); err != nil {
			return err
		}
		if err := l.node.route(route.Route{Dst: single(e.addr), Device: l.veth}); err != nil {
			return err
		}
	}
	return nil
}

func (l *podLink) has6() bool {
	for _, e := range l.ends {
		if e.addr.Is6() {
			return true
		}
	}
	return false
}

// quiet keeps a device from believing its neighbour's router advertisements (CVE-2020-10749: a Pod could become the
// node's router) and, on the node, from sending redirects to a Pod for packets that go back where they came from.
func (p *plugin) quiet(device string, ipv6 bool) error {
	settings := []setting{
		{"net/ipv4/conf/" + device + "/send_redirects", "0", false},
		{"net/ipv6/conf/" + device + "/accept_dad", "0", false},
		{"net/ipv6/conf/" + device + "/accept_ra", "0", true},
	}
	if ipv6 { // runtimes switch it off in Pods
		settings = append(settings, setting{"net/ipv6/conf/" + device + "/disable_ipv6", "0", true})
	}
	for _, s := range settings {
		p.step("setting")
		err := p.sysctl.Set(s.key, s.value)
		lacking := errors.Is(err, fs.ErrNotExist) && !ipv6 // a kernel without IPv6
		if err != nil && !lacking && (s.needed || !errors.Is(err, sysctl.ErrReadOnly)) {
			return err
		}
	}
	return nil
}

type setting struct {
	key, value string
	needed     bool // also where /proc/sys is read-only
}

func (p *plugin) up(device string, ends []end, own func(end) netip.Addr) error {
	for _, e := range ends {
		p.step("address")
		if err := p.links.AddAddr(device, single(own(e))); err != nil {
			return err
		}
	}
	p.step("up")
	return p.links.SetUp(device, true)
}

func (p *plugin) neighbour(device string, a netip.Addr, m link.MAC) error {
	p.step("neighbour")
	return p.routes.PutNeighbour(route.Neighbour{Device: device, Addr: a, MAC: m})
}

func (p *plugin) route(r route.Route) error {
	p.step("route")
	r.Proto = podnet.RouteProtocol
	return p.routes.Put(r)
}

// result says what was made, after what earlier plugins of the chain made.
func (l *podLink) result(c *conf) types.Result {
	out := resultOf(c)
	out.Interfaces = append(out.Interfaces,
		&types100.Interface{Name: l.veth, Mac: l.hostMAC.String(), Mtu: l.config.MTU},
		&types100.Interface{Name: l.ifname, Mac: l.podMAC.String(), Mtu: l.config.MTU, Sandbox: l.netns})
	inPod := len(out.Interfaces) - 1
	for _, e := range l.ends {
		out.IPs = append(out.IPs, &types100.IPConfig{Interface: &inPod, Address: *ipNet(single(e.addr)), Gateway: e.gateway.AsSlice()})
		out.Routes = append(out.Routes, &types.Route{Dst: *ipNet(everything(e.addr)), GW: e.gateway.AsSlice()})
	}
	if out.DNS.IsEmpty() {
		out.DNS = c.DNS
	}
	return out
}

// resultOf is the result of the plugins before this one in the chain, or an empty one.
func resultOf(c *conf) *types100.Result {
	if c.PrevResult != nil {
		if prev, err := types100.NewResultFromResult(c.PrevResult); err == nil {
			return prev
		}
	}
	return &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
}

func everything(family netip.Addr) netip.Prefix {
	if family.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
