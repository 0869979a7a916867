package scenario

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// given is what the short forms have given to objects. An object keeps it over all steps until it is deleted.
type given struct {
	nodes  map[string]int // node -> its number, from 1
	addrs  map[string][]string
	ports  map[string]int32
	births map[string]int // how often an object of this key was made, for its UID
	used   map[string]bool
}

func newGiven() given {
	return given{nodes: map[string]int{}, addrs: map[string][]string{}, ports: map[string]int32{}, births: map[string]int{}}
}

// forget frees what a deleted object had.
func (g *given) forget(key string) {
	delete(g.addrs, key)
	maps.DeleteFunc(g.ports, func(k string, _ int32) bool { return len(k) > len(key) && k[:len(key)+1] == key+" " })
	g.births[key]++
}

// collect notes every address and node port that the file gives itself or that was given before.
func (g *given) collect(objs []decoded) {
	g.used = map[string]bool{}
	for _, list := range g.addrs {
		g.use(list...)
	}
	for _, p := range g.ports {
		g.use(fmt.Sprint(p))
	}
	for _, d := range objs {
		switch a := d.api.(type) {
		case *corev1.Pod:
			g.use(a.Status.PodIP)
			for _, ip := range a.Status.PodIPs {
				g.use(ip.IP)
			}
		case *corev1.Service:
			g.use(a.Spec.ClusterIP)
			g.use(a.Spec.ClusterIPs...)
			for _, p := range a.Spec.Ports {
				g.use(fmt.Sprint(p.NodePort))
			}
		}
	}
}

func (g *given) use(values ...string) {
	for _, v := range values {
		g.used[v] = true
	}
}

// identity gives the object a UID that survives changes, not deletion.
func (g *given) identity(d decoded) {
	if d.api.GetUID() == "" {
		d.api.SetUID(types.UID(fmt.Sprintf("%s %d", d.key, g.births[d.key]+1)))
	}
}

// node gives a Node addresses, Pod ranges and the condition Ready, each only when the file says nothing of it.
func (g *given) node(n *corev1.Node, raw map[string]any) {
	num, ok := g.nodes[n.Name]
	if !ok {
		num = len(g.nodes) + 1
		g.nodes[n.Name] = num
	}
	spec, _ := raw["spec"].(map[string]any)
	if spec["podCIDR"] == nil && !has(spec, "podCIDRs") {
		n.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", num), fmt.Sprintf("fd00:244:%d::/64", num)}
	}
	if len(n.Status.Addresses) == 0 {
		n.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.90.0.%d", 10+num)},
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("fd00:90::%d", 10+num)},
		}
	}
	if len(n.Status.Conditions) == 0 {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

// pod gives a Pod its node, phase, addresses and the condition Ready.
func (g *given) pod(key string, p *corev1.Pod, nodes map[string]*corev1.Node, order []string) error {
	if p.Spec.NodeName == "" {
		p.Spec.NodeName = order[0]
	}
	n := nodes[p.Spec.NodeName]
	if n == nil {
		return fmt.Errorf("spec.nodeName: there is no Node %s%s", p.Spec.NodeName, didYouMean(p.Spec.NodeName, order...))
	}
	if p.Status.Phase == "" {
		p.Status.Phase = corev1.PodRunning
	}
	if p.Status.Phase != corev1.PodRunning {
		return nil
	}
	if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	}
	if p.Status.PodIP != "" || len(p.Status.PodIPs) > 0 {
		return nil
	}
	list, err := g.podAddrs(key, p, n)
	for _, a := range list {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	return err
}

func (g *given) podAddrs(key string, p *corev1.Pod, n *corev1.Node) ([]string, error) {
	if p.Spec.HostNetwork {
		var out []string
		for _, a := range n.Status.Addresses {
			out = append(out, a.Address)
		}
		return out, nil
	}
	if list, ok := g.addrs[key]; ok {
		return list, nil
	}
	var out []string
	for _, c := range n.Spec.PodCIDRs {
		a, err := g.next(c, 2)
		if err != nil {
			return nil, fmt.Errorf("address in spec.podCIDRs of Node %s: %w", n.Name, err)
		}
		out = append(out, a)
	}
	g.addrs[key] = out
	return out, nil
}

// next is the first free address of a range, beginning at its host number from.
func (g *given) next(cidr string, from int) (string, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", err
	}
	a := p.Masked().Addr()
	for range from {
		a = a.Next()
	}
	for ; p.Contains(a); a = a.Next() {
		if !g.used[a.String()] {
			g.use(a.String())
			return a.String(), nil
		}
	}
	return "", fmt.Errorf("%s is full", cidr)
}

// service gives a Service its type, ClusterIPs and node ports.
func (g *given) service(key string, s *corev1.Service) error {
	sp := &s.Spec
	if sp.Type == "" {
		sp.Type = corev1.ServiceTypeClusterIP
	}
	if sp.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	if sp.ClusterIP == "" && len(sp.ClusterIPs) == 0 {
		list, err := g.clusterIPs(key, sp.IPFamilies)
		if err != nil {
			return err
		}
		sp.ClusterIPs, sp.ClusterIP = list, list[0]
	}
	if sp.Type != corev1.ServiceTypeNodePort && sp.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	if a := sp.AllocateLoadBalancerNodePorts; a != nil && !*a {
		return nil
	}
	for i := range sp.Ports {
		if sp.Ports[i].NodePort == 0 {
			sp.Ports[i].NodePort = g.nodePort(fmt.Sprintf("%s %d", key, i))
		}
	}
	return nil
}

func (g *given) clusterIPs(key string, families []corev1.IPFamily) ([]string, error) {
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	list := g.addrs[key]
	for _, f := range families[min(len(list), len(families)):] {
		cidr := "10.96.0.0/16"
		if f == corev1.IPv6Protocol {
			cidr = "fd00:96::/112"
		}
		a, err := g.next(cidr, 1)
		if err != nil {
			return nil, fmt.Errorf("spec.clusterIP: %w", err)
		}
		list = append(list, a)
	}
	g.addrs[key] = list
	return list, nil
}

func (g *given) nodePort(key string) int32 {
	if p, ok := g.ports[key]; ok {
		return p
	}
	p := int32(30001)
	for g.used[fmt.Sprint(p)] {
		p++
	}
	g.use(fmt.Sprint(p))
	g.ports[key] = p
	return p
}
