package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// dnsService is the Service whose address the Pods' resolv.conf holds, in every distribution.
var dnsService = model.N("kube-system", "kube-dns")

// resolve makes addresses of the target. No address and no error means that the way ends here, or, for HTTP from outside,
// starts at the ingress.
func (w *walker) resolve(f flow.Flow) ([]netip.AddrPort, error) {
	t := w.target
	switch {
	case t.Addr.IsValid():
		return []netip.AddrPort{netip.AddrPortFrom(t.Addr, t.Port)}, nil
	case w.q.Resolve.IsValid() && t.Kind == "":
		return []netip.AddrPort{netip.AddrPortFrom(w.q.Resolve, t.Port)}, nil
	case t.Kind == "pod":
		return w.podTarget()
	case t.Kind == "node":
		return w.nodeTarget(t.Host)
	case t.Kind == "svc":
		svc := w.s.Services.At(w.objectName(t.Host))
		if svc == nil {
			return nil, fmt.Errorf("trace: there is no Service %s", w.objectName(t.Host))
		}
		if f.From == flow.FromOutside {
			return w.outsideService(svc, f)
		}
		if svc.Headless {
			w.target.Host = fmt.Sprintf("%s.%s.svc.%s", svc.Name.Name, svc.Name.Namespace, w.q.domain())
			return w.clusterName(f)
		}
		return w.withPort(svc.ClusterIPs, svc)
	case w.s.Nodes.At(t.Host) != nil && w.s.Services.At(model.N(w.q.namespace(), t.Host)) == nil:
		return w.nodeTarget(t.Host)
	case f.From == flow.FromOutside:
		return w.outsideName(f)
	}
	return w.clusterName(f)
}

// objectName reads "name" or "namespace/name".
func (w *walker) objectName(s string) model.Name {
	ns, name, _ := strings.Cut(w.q.qualify(s), "/")
	return model.N(ns, name)
}

func (w *walker) podTarget() ([]netip.AddrPort, error) {
	name := w.objectName(w.target.Host)
	p := w.s.Pods.At(name)
	if p == nil {
		return nil, fmt.Errorf("trace: there is no Pod %s", name)
	}
	port := w.target.Port
	if port == 0 && len(p.Ports) > 0 {
		port = p.Ports[0].Port
	}
	if len(p.Addrs) == 0 || port == 0 {
		return nil, fmt.Errorf("trace: Pod %s has no address, or no port was given", name)
	}
	return []netip.AddrPort{netip.AddrPortFrom(p.Addrs[0], port)}, nil
}

func (w *walker) nodeTarget(name string) ([]netip.AddrPort, error) {
	n := w.s.Nodes.At(name)
	if n == nil || len(n.Addrs) == 0 || w.target.Port == 0 {
		return nil, fmt.Errorf("trace: Node %s does not exist, has no address, or no port was given", name)
	}
	return []netip.AddrPort{netip.AddrPortFrom(n.Addrs[0], w.target.Port)}, nil
}

// withPort joins addresses with the target's port, which may be left out when the Service is known.
func (w *walker) withPort(addrs []netip.Addr, svc *model.Service) ([]netip.AddrPort, error) {
	port := w.target.Port
	if port == 0 && svc != nil {
		for _, p := range svc.Ports {
			if protoOf(p.Protocol) == w.q.Proto {
				port = p.Port
				if t := w.candidates(svc, &p, len(addrs) > 0 && addrs[0].Is4()); svc.Headless && len(t) > 0 {
					port = t[0].Port()
				}
				break
			}
		}
	}
	if port == 0 {
		return nil, fmt.Errorf("trace: target %q needs a port", w.q.Target)
	}
	var out []netip.AddrPort
	for _, a := range addrs {
		out = append(out, netip.AddrPortFrom(a, port))
	}
	return out, nil
}

// digOnly asks only the DNS server.
func (w *walker) digOnly() error {
	f, err := w.sender()
	if err != nil {
		return err
	}
	st := w.askName(f, w.q.Target, w.q.DNSType)
	w.path.Outcome = Outcome{Action: st.Verdict.Action, Rcode: st.Verdict.Rcode, Records: st.Verdict.Records}
	return nil
}

// clusterName asks the cluster's DNS as the client's resolver would: A, and AAAA when there is no A.
func (w *walker) clusterName(f flow.Flow) ([]netip.AddrPort, error) {
	st := w.askName(f, w.target.Host, "A")
	addrs := addresses(st.Verdict.Records)
	if st.State == Broken && st.Verdict.Rcode == "NOERROR" && len(st.Verdict.Records) == 0 {
		steps, broken := w.path.Steps, w.broken
		w.path.Steps, w.broken = w.path.Steps[:len(steps)-1], false
		if v6 := w.askName(f, w.target.Host, "AAAA"); v6.State == Broken {
			w.path.Steps, w.broken = steps, broken
		} else {
			addrs = addresses(v6.Verdict.Records)
			w.path.Outcome = Outcome{}
		}
	}
	svc := w.serviceOfName(w.last().Verdict.Name)
	w.last().Service = nameOf(svc)
	if svc != nil && svc.Headless {
		w.headless = svc
	}
	if len(addrs) > 0 {
		return w.withPort(addrs, svc)
	}
	if w.last().Verdict.Good() && w.last().Err == nil {
		return w.upstreamName(f)
	}
	if svc := w.serviceOfTarget(); svc != nil {
		return w.withPort(svc.ClusterIPs, svc)
	}
	return nil, nil
}

// upstreamName is a name that another server answers: the way goes on when it is the host of an Ingress.
func (w *walker) upstreamName(f flow.Flow) ([]netip.AddrPort, error) {
	if addrs := w.ingressAddrs(); len(addrs) > 0 && w.hostHasRule() {
		w.skip("whether %s resolves to the ingress's address: it is not a name of the cluster", w.target.Host)
		return w.withPort(addrs[:1], nil)
	}
	w.skip("whether %s answers: it is not a name of the cluster (--resolve ADDRESS follows an address, --probe asks it)", w.target.Host)
	w.end(Outcome{Action: flow.Pass})
	return nil, nil
}

func (w *walker) askName(f flow.Flow, name, typ string) Step {
	f.Proto = flow.UDP
	f.DNS = &flow.Question{Name: name, Type: typ}
	if f.From != flow.FromOutside {
		d := w.q.domain()
		f.DNS.Search, f.DNS.NDots = []string{w.q.namespace() + ".svc." + d, "svc." + d, d}, 5
	}
	node := f.Node
	if node == "" {
		if n := w.readyNode(); n != nil {
			node = n.Name
		}
	}
	f.Node = node
	if svc := w.s.Services.At(dnsService); svc != nil && len(svc.ClusterIPs) > 0 {
		f.Dst = netip.AddrPortFrom(svc.ClusterIPs[0], 53)
		f.Src = w.source(f, f.Dst.Addr().Is4())
	}
	v, err := w.v.Verdict(w.ctx, HopName, node, f)
	st := Step{Hop: HopName, Node: node, Flow: f, Verdict: v, Err: err}
	w.wayToDNS(&st)
	w.add(st)
	return *w.last()
}

// wayToDNS asks the Service proxy about the packets of a Pod's question: a right answer that does not arrive is none.
func (w *walker) wayToDNS(st *Step) {
	svc, port := w.service(st.Flow.Dst, flow.UDP)
	if svc == nil || port == nil || st.Flow.From != flow.FromPod {
		return
	}
	v, err := w.v.Verdict(w.ctx, HopProxy, st.Node, dnsPacket(st.Flow))
	if err != nil {
		return
	}
	if st.Way = &v; v.Good() {
		return
	}
	f := finding(flow.DNSServerDown, serviceObject(svc), "the client's questions to "+st.Flow.Dst.String()+" are "+string(v.Action), "kubectl -n "+svc.Name.Namespace+" get pods -o wide: see the DNS server")
	if inner := w.explainService(svc, port, &Step{Hop: HopProxy, Node: st.Node, Flow: st.Flow}); inner != nil {
		f = finding(flow.DNSServerDown, serviceObject(svc), f.Cause+": "+inner.Cause, inner.Fix, inner.Evidence...)
	}
	st.Findings = append(st.Findings, f)
}

// dnsPacket is the question as the Service proxy sees it.
func dnsPacket(f flow.Flow) flow.Flow {
	f.DNS = nil
	return f
}

// addresses is the A and AAAA records' addresses.
func addresses(records []string) []netip.Addr {
	var out []netip.Addr
	for _, r := range records {
		typ, data, _ := strings.Cut(r, " ")
		if a, err := netip.ParseAddr(data); err == nil && (typ == "A" || typ == "AAAA") {
			out = append(out, a)
		}
	}
	return out
}

// serviceOfName is the Service of an absolute name in the cluster's domain, or nil.
func (w *walker) serviceOfName(abs string) *model.Service {
	rest, ok := strings.CutSuffix(strings.TrimSuffix(strings.ToLower(abs), "."), ".svc."+w.q.domain())
	if !ok {
		return nil
	}
	labels := strings.Split(rest, ".")
	if len(labels) < 2 {
		return nil
	}
	return w.s.Services.At(model.N(labels[len(labels)-1], labels[len(labels)-2]))
}

// serviceOfTarget is the Service that the target's name means, without asking DNS: "cart", "cart.shop", "cart.shop.svc...".
func (w *walker) serviceOfTarget() *model.Service {
	host := strings.TrimSuffix(w.target.Host, ".")
	if svc := w.serviceOfName(host); svc != nil {
		return svc
	}
	name, rest, dotted := strings.Cut(strings.TrimSuffix(host, ".svc"), ".")
	if !dotted {
		rest = w.q.namespace()
	}
	return w.s.Services.At(model.N(rest, name))
}

// outsideName finds the address that a client beyond the nodes would use for the name: the ingress's for the host of an
// Ingress, else the Service's load balancer or external address.
func (w *walker) outsideName(f flow.Flow) ([]netip.AddrPort, error) {
	if svc := w.serviceOfTarget(); svc != nil && !w.hostHasRule() {
		return w.outsideService(svc, f)
	}
	if w.http == nil {
		return nil, fmt.Errorf("trace: from outside, %q is neither an address nor the host of an Ingress nor a Service", w.target.Host)
	}
	ing := w.ingressService()
	addrs := w.ingressAddrs()
	if len(addrs) == 0 && ing != nil && ing.Type == model.LoadBalancer {
		return w.outsideService(ing, f)
	}
	if len(addrs) == 0 {
		w.skip("the way to the ingress: no Service of podway-ingress with an address")
		return []netip.AddrPort{{}}, nil
	}
	return w.withPort(addrs[:1], nil)
}

// outsideService is the Service's address for clients beyond the nodes; a Service of type LoadBalancer that has none yet
// breaks here.
func (w *walker) outsideService(svc *model.Service, f flow.Flow) ([]netip.AddrPort, error) {
	if addrs := outsideAddrs(svc); len(addrs) > 0 {
		return w.withPort(addrs[:1], svc)
	}
	if svc.Type == model.LoadBalancer {
		w.add(Step{Hop: HopAnnounce, Flow: f, Service: svc.Name, Verdict: flow.Verdict{Action: flow.Dropped, Why: "no address"},
			Detail:   "Service " + svc.Name.String() + " has no LoadBalancer address",
			Findings: []flow.Finding{w.pending(svc)}})
		if n := w.readyNode(); n != nil && len(svc.ClusterIPs) > 0 {
			w.q.From, w.q.Node = flow.FromOutside, n.Name
			return w.withPort(svc.ClusterIPs[:1], svc)
		}
		return nil, nil
	}
	for _, p := range svc.Ports {
		if n := w.readyNode(); n != nil && len(n.Addrs) > 0 && p.NodePort != 0 && (p.Port == w.target.Port || w.target.Port == 0) {
			return []netip.AddrPort{netip.AddrPortFrom(n.Addrs[0], p.NodePort)}, nil
		}
	}
	return nil, fmt.Errorf("trace: Service %s has no address for clients outside the cluster: it is of type %s", svc.Name, svc.Type)
}

func outsideAddrs(svc *model.Service) []netip.Addr {
	var out []netip.Addr
	for _, l := range svc.LoadBalancerIPs {
		out = append(out, l.Addr)
	}
	return append(out, svc.ExternalIPs...)
}

// ingressService is the Service in front of podway's ingress proxy, or nil.
func (x *Index) ingressService() *model.Service {
	var found *model.Service
	for _, svc := range model.Sorted(x.s.Services, func(a, b *model.Service) int { return a.Name.Compare(b.Name) }) {
		if svc.Name.Name == "podway-ingress" {
			return svc
		}
		if found == nil && svc.Type != model.ExternalName && slices.ContainsFunc(x.selected(svc), IsIngressPod) {
			found = svc
		}
	}
	return found
}

func (x *Index) ingressAddrs() []netip.Addr {
	if svc := x.ingressService(); svc != nil {
		return outsideAddrs(svc)
	}
	return nil
}

// hostHasRule reports whether an Ingress has a rule for the target's host by name.
func (w *walker) hostHasRule() bool {
	if w.http == nil {
		return false
	}
	for ing := range w.s.Ingresses.Values() {
		for _, r := range ing.Rules {
			if r.Host != "" && hostRank(r.Host, w.http.Host) >= 0 {
				return true
			}
		}
	}
	return false
}
