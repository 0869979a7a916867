package oracle

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/scenario"
	"github.com/podway/podway/internal/trace"
)

// Client is somebody who sends.
type Client struct {
	From flow.Kind
	Name string // of the Pod or node; "" outside
	Node string // where the packets are decided about: the client's own, or that by which they enter
}

// Target is an address at which something is asked for.
type Target struct {
	Addr    netip.AddrPort
	Proto   flow.Proto
	What    string // whose it is, in words: "svc-1 clusterIP"
	Service model.Name
	At      string // the node whose address it is, "" for one of no node
}

// Probe is one question: a client and a target.
type Probe struct {
	Client
	Target
	Sticky  bool     // one client is expected to stay with one Pod
	Allowed []string // the Pods that podway's model allows, for how often to ask and for clients that stay; nil = nobody says
}

// String is the question in the language of scenarios.
func (p Probe) String() string {
	to := fmt.Sprintf("%s %s", p.Proto, p.Addr)
	switch p.From {
	case flow.FromPod:
		return fmt.Sprintf("pod %s -> %s", p.Name, to)
	case flow.FromNode:
		return fmt.Sprintf("node %s -> %s", p.Name, to)
	}
	return fmt.Sprintf("outside %s via %s -> %s", outsideClient(p.Addr.Addr().Is4(), 0), p.Node, to)
}

// outsideClient is the i-th address beyond the nodes that sends.
func outsideClient(is4 bool, i int) netip.Addr {
	if is4 {
		return netip.AddrFrom4([4]byte{203, 0, 113, byte(5 + i)})
	}
	a := netip.MustParseAddr("fd00:203::").As16()
	a[14], a[15] = byte((5+i)>>8), byte(5+i)
	return netip.AddrFrom16(a)
}

// asker makes the questions about one state.
type asker struct {
	st   *scenario.State
	view trace.View
}

// Probes are all questions about a state, in a fixed order.
func Probes(st *scenario.State) []Probe {
	a := &asker{st, scenario.Declared(st, "")}
	var out []Probe
	for _, t := range a.targets() {
		for _, c := range a.clients(t) {
			out = append(out, a.probe(c, t))
		}
	}
	return out
}

// targets are all frontends of all Services, then what is no frontend of any.
func (a *asker) targets() (out []Target) {
	s := a.st.Snapshot
	services := model.Sorted(s.Services, func(x, y *model.Service) int { return x.Name.Compare(y.Name) })
	for _, svc := range services {
		for i := range svc.Ports {
			out = append(out, a.frontends(svc, &svc.Ports[i])...)
		}
		for _, ip := range svc.ClusterIPs[:min(1, len(svc.ClusterIPs))] {
			for _, proto := range []flow.Proto{flow.TCP, flow.UDP} {
				out = append(out, Target{Addr: netip.AddrPortFrom(ip, 7), Proto: proto, What: svc.Name.Name + " clusterIP, no port of it"})
			}
		}
	}
	out = append(out,
		Target{Addr: netip.MustParseAddrPort("10.96.200.200:80"), Proto: flow.TCP, What: "clusterIP of nobody"},
		Target{Addr: netip.MustParseAddrPort("[fd00:96::ffff]:80"), Proto: flow.UDP, What: "clusterIP of nobody"},
		Target{Addr: netip.AddrPortFrom(s.Nodes.At(nodeA).Addr(true), 31999), Proto: flow.TCP, What: "nodePort of nobody", At: nodeA},
		Target{Addr: netip.MustParseAddrPort("10.244.2.3:8080"), Proto: flow.TCP, What: "a Pod"})
	slices.SortStableFunc(out, func(x, y Target) int {
		return cmp.Or(x.Addr.Compare(y.Addr), cmp.Compare(x.Proto, y.Proto))
	})
	return slices.CompactFunc(out, func(x, y Target) bool { return x.Addr == y.Addr && x.Proto == y.Proto })
}

func (a *asker) frontends(svc *model.Service, p *model.ServicePort) (out []Target) {
	proto := map[model.Protocol]flow.Proto{model.TCP: flow.TCP, model.UDP: flow.UDP}[p.Protocol]
	put := func(ip netip.Addr, port uint16, kind, node string) {
		if ip.IsValid() {
			out = append(out, Target{netip.AddrPortFrom(ip, port), proto, svc.Name.Name + " " + kind, svc.Name, node})
		}
	}
	for _, ip := range svc.ClusterIPs {
		put(ip, p.Port, "clusterIP", "")
		for _, n := range []string{nodeA, nodeB} {
			if o := a.st.Snapshot.Nodes.At(n); p.NodePort != 0 && o != nil {
				put(o.Addr(ip.Is4()), p.NodePort, "nodePort", n)
			}
		}
	}
	for _, lb := range svc.LoadBalancerIPs {
		kind := "load balancer address"
		if lb.Proxy {
			kind += " (ipMode Proxy)"
		}
		put(lb.Addr, p.Port, kind, "")
	}
	for _, ip := range svc.ExternalIPs {
		put(ip, p.Port, "externalIP", "")
	}
	return out
}

// clients are one of each kind, and a Pod that may be sent its own request.
func (a *asker) clients(t Target) []Client {
	entry := cmp.Or(t.At, nodeA)
	out := []Client{{flow.FromOutside, "", entry}, {flow.FromNode, nodeA, nodeA}, {flow.FromPod, clientA, nodeA},
		{flow.FromPod, clientB, nodeB}, {flow.FromNode, nodeB, nodeB}}
	if self := a.self(t.Service); self != "" {
		out = append(out, Client{flow.FromPod, self, nodeA})
	}
	return out
}

// self is the first endpoint of the Service that is a Pod of node-a with a network of its own.
func (a *asker) self(n model.Name) (found string) {
	a.st.Snapshot.Backends(n).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		for i := range backends {
			b := &backends[i]
			if found == "" && b.node == nodeA && !b.onHost() && (e.Addr.String() == b.v4 || e.Addr.String() == b.v6) {
				found = b.name
			}
		}
	})
	return found
}

// probe asks podway's model what it would do, which decides how often to ask.
func (a *asker) probe(c Client, t Target) Probe {
	p := Probe{Client: c, Target: t}
	if svc := a.st.Snapshot.Services.At(t.Service); svc != nil {
		p.Sticky = svc.AffinityTimeout > 0
	}
	f := flow.Flow{From: c.From, Node: c.Node, Proto: t.Proto, Dst: t.Addr, DstLocal: t.At != ""}
	if t.At != "" {
		f.Node = t.At
	}
	switch c.From {
	case flow.FromPod:
		f.Sender = "default/" + c.Name
	case flow.FromNode:
		f.Sender = c.Name
	}
	f.Src = netip.AddrPortFrom(a.source(c, t.Addr.Addr().Is4()), 0)
	v, err := a.view.Verdict(context.Background(), trace.HopProxy, f.Node, f)
	if err == nil && v.Action == flow.Forward {
		for _, to := range v.Targets {
			p.Allowed = append(p.Allowed, answerer(to.Addr()))
		}
	}
	return p
}

// source is the client's address of a family.
func (a *asker) source(c Client, is4 bool) netip.Addr {
	var from []netip.Addr
	switch c.From {
	case flow.FromOutside:
		return outsideClient(is4, 0)
	case flow.FromNode:
		from = a.st.Snapshot.Nodes.At(c.Name).Addrs
	default:
		from = a.st.Snapshot.Pods.At(model.N("default", c.Name)).Addrs
	}
	if i := slices.IndexFunc(from, func(x netip.Addr) bool { return x.Is4() == is4 }); i >= 0 {
		return from[i]
	}
	return netip.Addr{}
}

// answerer is the backend with an address, or the address.
func answerer(a netip.Addr) string {
	for i := range backends {
		if s := a.String(); s == backends[i].v4 || s == backends[i].v6 {
			return "default/" + backends[i].name
		}
	}
	return a.String()
}
