package oracle

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/scenario"
)

// Difference is one that is on purpose. docs/differences.md has its reason, under the same key.
type Difference struct {
	Key  string
	Mode string // of podway in which alone it is, "" = any
	Peer string // mode of kube-proxy beside which alone it is, "" = any
	// Explains tells whether a finding is this difference and no other.
	Explains func(st *scenario.State, f *Finding) bool
}

// Differences are all that the oracle can see.
func Differences() []Difference {
	return []Difference{
		{"two-claims", "", "", twoClaims},
		{"source-ranges-family", "", "", sourceRangesFamily},
		{"hairpin-unplaced", "", "", hairpinUnplaced},
		{"duplicate-endpoint", "", "", duplicateEndpoint},
		{"udp-passing-by", "", "", udpPassingBy},
		{"udp-frontend-gone", "", "", udpFrontendGone},
		{"udp-nodeport-empty", "", "", udpNodePortEmpty},
		{"ebpf-source", "ebpf", "", ebpfSource},
		{"ebpf-untracked", "ebpf", "", ebpfUntracked},
		{"ebpf-new-socket", "ebpf", "", ebpfNewSocket},
		{"iptables-other-port", "", "iptables", iptablesOtherPort},
		{"iptables-ranges-empty", "", "iptables", iptablesRangesEmpty},
		{"iptables-node-external", "", "iptables", iptablesNodeExternal},
		{"iptables-invalid", "", "iptables", iptablesInvalid},
	}
}

// modes are those of both sides; the peer's is "" when it is not kube-proxy.
type modes struct{ podway, peer string }

func modesOf(podway, peer scenario.KernelOptions) (m modes) {
	m.podway = podway.ProxyMode
	if peer.KubeProxy.Program != "" {
		m.peer = peer.KubeProxy.Mode
	}
	return m
}

// may reports whether the difference can be seen between these.
func (d *Difference) may(m modes) bool {
	return (d.Mode == "" || d.Mode == m.podway) && (d.Peer == "" || d.Peer == m.peer)
}

// explain is the key of the difference that explains a finding, or "".
func explain(m modes, st *scenario.State, f *Finding) string {
	for _, d := range Differences() {
		if d.may(m) && d.Explains(st, f) {
			return d.Key
		}
	}
	return ""
}

// twoClaims: two Services want one address and port.
func twoClaims(st *scenario.State, f *Finding) bool {
	at, proto := f.Probe.Addr, f.Probe.Proto
	if !at.IsValid() {
		at, proto = f.Tracked.Dst, flow.UDP
	}
	return claimants(st, at, proto) > 1
}

// claimants counts the Services that answer at an address, port and protocol.
func claimants(st *scenario.State, at netip.AddrPort, proto flow.Proto) (n int) {
	for s := range st.Snapshot.Services.Values() {
		for i := range s.Ports {
			if answersAt(st, s, &s.Ports[i], at, proto) {
				n++
			}
		}
	}
	return n
}

func answersAt(st *scenario.State, s *model.Service, p *model.ServicePort, at netip.AddrPort, proto flow.Proto) bool {
	if string(proto) != strings.ToLower(string(p.Protocol)) || s.ProxyName != "" || !s.HasClusterIP() {
		return false
	}
	is := func(a netip.Addr) bool { return a == at.Addr() }
	if p.NodePort == at.Port() {
		for n := range st.Snapshot.Nodes.Values() {
			if slices.ContainsFunc(n.Addrs, is) {
				return true
			}
		}
	}
	return p.Port == at.Port() && (slices.ContainsFunc(s.ClusterIPs, is) || slices.ContainsFunc(s.ExternalIPs, is) ||
		slices.ContainsFunc(s.LoadBalancerIPs, func(lb model.LoadBalancerIP) bool { return is(lb.Addr) }))
}

// sourceRangesFamily: loadBalancerSourceRanges of one family, a load balancer address of the other.
func sourceRangesFamily(st *scenario.State, f *Finding) bool {
	s := st.Snapshot.Services.At(f.Probe.Service)
	if s == nil || len(s.SourceRanges) == 0 || f.Probe.At != "" {
		return false
	}
	a := f.Probe.Addr.Addr()
	if slices.ContainsFunc(s.SourceRanges, func(r netip.Prefix) bool { return r.Addr().Is4() == a.Is4() }) {
		return false
	}
	return slices.ContainsFunc(s.LoadBalancerIPs, func(lb model.LoadBalancerIP) bool { return lb.Addr == a }) &&
		f.Podway == "dropped"
}

// hairpinUnplaced: a Pod that is sent its own request, through an endpoint whose node nobody says.
func hairpinUnplaced(st *scenario.State, f *Finding) bool {
	unplaced := false
	st.Snapshot.Backends(f.Probe.Service).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		unplaced = unplaced || e.Node == "" && answerer(e.Addr) == "default/"+f.Probe.Name
	})
	return unplaced && f.Probe.From == flow.FromPod && strings.Contains(f.Peer, "dropped") && strings.HasPrefix(f.Podway, "reached")
}

// duplicateEndpoint: two slices have the same address and port in different conditions.
func duplicateEndpoint(st *scenario.State, f *Finding) bool {
	name := f.Probe.Service
	if f.Tracked.Dst.IsValid() {
		for s := range st.Snapshot.Services.Values() {
			for i := range s.Ports {
				if answersAt(st, s, &s.Ports[i], f.Tracked.Dst, flow.UDP) {
					name = s.Name
				}
			}
		}
	}
	type condition struct{ ready, serving, terminating bool }
	seen, twice := map[netip.AddrPort]condition{}, false
	st.Snapshot.Backends(name).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		for _, p := range sl.Ports {
			at, c := netip.AddrPortFrom(e.Addr, p.Port), condition{e.Ready, e.Serving, e.Terminating}
			have, ok := seen[at]
			twice = twice || ok && have != c
			seen[at] = c
		}
	})
	return twice
}

// udpPassingBy: a tracked connection to a node port of another node.
func udpPassingBy(st *scenario.State, f *Finding) bool {
	n := st.Snapshot.Nodes.At(f.Tracked.Node)
	return n != nil && f.Tracked.Dst.Port() >= 30000 && !slices.Contains(n.Addrs, f.Tracked.Dst.Addr()) && f.Podway == "kept"
}

// udpFrontendGone: a tracked connection to an address and port at which no Service answers any more.
func udpFrontendGone(st *scenario.State, f *Finding) bool {
	return f.Tracked.Dst.IsValid() && claimants(st, f.Tracked.Dst, flow.UDP) == 0 && f.Podway == "deleted"
}

// udpNodePortEmpty: a tracked connection to a node port whose Service has no endpoint any more.
func udpNodePortEmpty(st *scenario.State, f *Finding) bool {
	if f.Podway != "deleted" || f.Tracked.Dst.Port() < 30000 {
		return false
	}
	for s := range st.Snapshot.Services.Values() {
		for i := range s.Ports {
			if answersAt(st, s, &s.Ports[i], f.Tracked.Dst, flow.UDP) {
				return !serves(st, s, &s.Ports[i], f.Tracked.Dst.Addr().Is4())
			}
		}
	}
	return false
}

// serves reports whether a Service's port has an endpoint of a family that serves.
func serves(st *scenario.State, s *model.Service, p *model.ServicePort, is4 bool) (found bool) {
	st.Snapshot.Backends(s.Name).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		if e.Addr.Is4() == is4 && (e.Ready || e.Serving) {
			found = found || slices.ContainsFunc(sl.Ports, func(x model.EndpointPort) bool { return x.Name == p.Name && x.Protocol == p.Protocol })
		}
	})
	return found
}

// ebpfSource: a Pod's connection is led to the endpoint at its socket, so that the endpoint sees the Pod.
func ebpfSource(_ *scenario.State, f *Finding) bool {
	ours, theirs := f.seen[0], f.seen[1]
	if f.Probe.From != flow.FromPod || !slices.Equal(ours.From, []string{"pod default/" + f.Probe.Name}) {
		return false
	}
	ours.From = theirs.From
	return ours.equal(theirs)
}

// ebpfUntracked: a client in a Pod or on a node, whose packets never have the Service's address.
func ebpfUntracked(_ *scenario.State, f *Finding) bool {
	return f.Tracked.Dst.IsValid() && f.Tracked.From != flow.FromOutside && f.Podway != "kept"
}

// ebpfNewSocket: a client in a Pod or on a node that opens a new UDP socket on the port of an earlier one.
func ebpfNewSocket(_ *scenario.State, f *Finding) bool {
	in := func(s string, words ...string) bool {
		return !slices.ContainsFunc(strings.Fields(strings.NewReplacer("moves to another Pod", "moves", ",", "").Replace(s)), func(w string) bool { return w != "some" && !slices.Contains(words, w) })
	}
	return f.long && f.Probe.From != flow.FromOutside && in(f.Podway, "moves", "stays") && in(f.Peer, "moves", "stays")
}

// iptablesOtherPort: a port of a ClusterIP that the Service does not have.
func iptablesOtherPort(st *scenario.State, f *Finding) bool {
	at := f.Probe.Addr
	isClusterIP := false
	for s := range st.Snapshot.Services.Values() {
		isClusterIP = isClusterIP || slices.Contains(s.ClusterIPs, at.Addr())
	}
	return isClusterIP && claimants(st, at, f.Probe.Proto) == 0 && f.Podway == "refused" && f.Peer == "dropped"
}

// iptablesRangesEmpty: a client that may not come in, at a Service that has nobody to serve it.
func iptablesRangesEmpty(st *scenario.State, f *Finding) bool {
	s := st.Snapshot.Services.At(f.Probe.Service)
	return s != nil && len(s.SourceRanges) > 0 && f.Podway == "dropped" && f.Peer == "refused"
}

// iptablesNodeExternal: the node itself asks an external address whose Service has nobody to serve it.
func iptablesNodeExternal(st *scenario.State, f *Finding) bool {
	s, a := st.Snapshot.Services.At(f.Probe.Service), f.Probe.Addr.Addr()
	return s != nil && f.Probe.From == flow.FromNode && f.Podway == "refused" && f.Peer == "dropped" &&
		(slices.Contains(s.ExternalIPs, a) || slices.ContainsFunc(s.LoadBalancerIPs, func(lb model.LoadBalancerIP) bool { return lb.Addr == a }))
}

// iptablesInvalid: a client outside reaches a Pod itself by a node on which the Pod is not. Its answers take another way, so
// that connection tracking there calls the client's packets invalid.
func iptablesInvalid(st *scenario.State, f *Finding) bool {
	return f.Probe.From == flow.FromOutside && f.Probe.Proto == flow.TCP && claimants(st, f.Probe.Addr, f.Probe.Proto) == 0 &&
		strings.HasPrefix(f.Podway, "reached") && f.Peer == "dropped"
}
