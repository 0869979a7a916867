package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/model"
)

// PodRanges tells the index ranges of Pod addresses beside those of the nodes.
func (x *Index) PodRanges(ranges []netip.Prefix) *Index {
	x.ranges = append(x.ranges, ranges...)
	return x
}

// podRange says in whose range of Pod addresses a lies; "" for an address outside all of them, for the node's own address in
// its range, and while no Pod of the range is known, as when Pods may not be listed.
func (x *Index) podRange(a netip.Addr) string {
	for _, n := range model.Sorted(x.s.Nodes, func(a, b *model.Node) int { return model.N("", a.Name).Compare(model.N("", b.Name)) }) {
		for _, c := range n.PodCIDRs {
			if c.Contains(a) {
				if ipam.Gateway(c) == a || !x.knowsPods(func(p *model.Pod) bool { return p.Node == n.Name }) {
					return ""
				}
				return fmt.Sprintf("%s, the Pod range of node %s", c, n.Name)
			}
		}
	}
	for _, c := range x.ranges {
		if c.Contains(a) && x.knowsPods(func(p *model.Pod) bool { return slices.ContainsFunc(p.Addrs, c.Contains) }) {
			return fmt.Sprintf("%s, the cluster's Pod range, and in no node's part of it", c)
		}
	}
	return ""
}

func (x *Index) knowsPods(of func(*model.Pod) bool) bool {
	for p := range x.s.Pods.Values() {
		if !p.HostNetwork && !p.Terminal() && len(p.Addrs) > 0 && of(p) {
			return true
		}
	}
	return false
}

// nobodys is for an address of the Pod network that no Pod has; of is the Service whose slice lists it, or zero.
func (x *Index) nobodys(a netip.Addr, of model.Name) flow.Finding {
	if of.Name != "" {
		return finding(flow.PodGone, "Service "+of.String(), fmt.Sprintf("the endpoint %s is in %s, and no Pod has it", a, x.podRange(a)), slicesOf(of))
	}
	return finding(flow.NoSuchPodAddress, "address "+a.String(), fmt.Sprintf("no Pod has the address %s, which is in %s", a, x.podRange(a)),
		"kubectl get pods -A -o wide: use the address of a Pod that runs, or a Service")
}

func slicesOf(of model.Name) string {
	return "kubectl get endpointslices -n " + of.Namespace + " -l kubernetes.io/service-name=" + of.Name + " -o yaml: see who wrote the endpoint"
}

// milder makes a warning of what is wrong with one endpoint while others of the Service serve.
func (x *Index) milder(f flow.Finding, of model.Name) flow.Finding {
	x.s.Backends(of).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		if e.Ready && x.pod(netip.AddrPortFrom(e.Addr, 0), model.Name{}) != nil {
			f.Severity = flow.Warning
		}
	})
	return f
}

// Strays are the endpoints of a Service that are ready, and that no Pod is behind, each as a finding.
func (x *Index) Strays(svc *model.Service) (out []flow.Finding) {
	seen := map[netip.Addr]bool{}
	x.s.Backends(svc.Name).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		if !e.Ready || seen[e.Addr] || !e.Addr.IsValid() {
			return
		}
		seen[e.Addr] = true
		gone := e.Pod.Name != "" && x.s.Pods.Len() > 0 && x.s.Pods.At(e.Pod) == nil
		switch {
		case gone:
			out = append(out, x.milder(podGone(e, svc.Name), svc.Name))
		case e.Pod.Name == "" && len(x.pods[e.Addr]) == 0 && x.nodes[e.Addr] == nil && x.podRange(e.Addr) != "":
			out = append(out, x.milder(x.nobodys(e.Addr, svc.Name), svc.Name))
		}
	})
	return out
}

// hostPort is the Pod of the node that takes the flow to a port of the node itself, and the Pod's own port.
func (x *Index) hostPort(n *model.Node, f flow.Flow) (*model.Pod, uint16) {
	if f.Dst.Addr().IsLoopback() {
		return nil, 0
	}
	for _, p := range model.Sorted(x.s.Pods, func(a, b *model.Pod) int { return a.Name.Compare(b.Name) }) {
		if p.Node != n.Name || p.HostNetwork || p.Terminal() || !slices.ContainsFunc(p.Addrs, func(a netip.Addr) bool { return a.Is4() == f.Dst.Addr().Is4() }) {
			continue
		}
		for _, c := range p.Ports {
			anywhere := !c.HostIP.IsValid() || c.HostIP.IsUnspecified() && c.HostIP.Is4() == f.Dst.Addr().Is4()
			if c.HostPort == f.Dst.Port() && protoOf(c.Protocol) == f.Proto && (anywhere || c.HostIP == f.Dst.Addr()) {
				return p, c.Port
			}
		}
	}
	return nil, 0
}
