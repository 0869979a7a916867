package cni

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/netns"
)

// add makes the link of an interface of a Pod.
func (p *plugin) add(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	node, err := awaitNodeConfig(c.Config)
	if err != nil {
		return types.NewError(types.ErrTryAgainLater, err.Error(), "")
	}
	ns, err := p.openPod(args.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	l, err := p.newPodLink(args, ns, node)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.clear(); err != nil {
		return err
	}
	if err := l.reserve(c, args); err != nil {
		return err
	}
	err = l.make()
	if err == nil && len(c.RuntimeConfig.PortMappings) > 0 {
		err = p.syncPorts(p.store(c))
	}
	if err != nil {
		p.undo(c, args)
		return err
	}
	return types.PrintResult(l.result(c), c.CNIVersion)
}

// agentPatience is how long an ADD waits for the node agent: after a node's start Pods come before the agent has spoken, and a
// failed ADD costs each of them the kubelet's back-off of ten seconds and more.
const agentPatience = 5 * time.Second

// awaitNodeConfig reads the node's configuration, and waits a little when the agent has not written it yet.
func awaitNodeConfig(path string) (podnet.NodeConfig, error) {
	for deadline := time.Now().Add(agentPatience); ; time.Sleep(50 * time.Millisecond) {
		c, err := podnet.ReadNodeConfig(path)
		if !errors.Is(err, podnet.ErrNoConfig) || time.Now().After(deadline) {
			return c, err
		}
	}
}

// undo takes back what a failed ADD did; what it cannot take back now, DEL and GC will.
func (p *plugin) undo(c *conf, args *skel.CmdArgs) {
	if p.links.Delete(podnet.VethName(args.ContainerID, args.IfName)) == nil {
		s := p.store(c)
		_ = s.Release(args.ContainerID, args.IfName)
		if len(c.RuntimeConfig.PortMappings) > 0 {
			_ = p.syncPorts(s)
		}
	}
}

func (p *plugin) openPod(path string) (*netns.NS, error) {
	ns, err := netns.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, types.NewError(types.ErrUnknownContainer, fmt.Sprintf("the Pod's network namespace %s does not exist", path), "")
	}
	if err != nil {
		return nil, err
	}
	if a, err := os.Stat(path); err == nil {
		if b, err := os.Stat("/proc/thread-self/ns/net"); err == nil && os.SameFile(a, b) {
			ns.Close()
			return nil, types.NewError(types.ErrInvalidNetNS, "the Pod's network namespace is the node's own", "")
		}
	}
	return ns, nil
}

// clear takes away what a killed ADD of the same interface left. A complete link, or any other device of this name in
// the Pod, is an error.
func (l *podLink) clear() error {
	inPod, exists, err := l.pod.links.Get(l.ifname)
	if err != nil {
		return err
	}
	host, left, err := l.node.links.Get(l.veth)
	if err != nil {
		return err
	}
	unfinished := left && host.Alias == ""
	if exists && !(unfinished && inPod.MAC == l.podMAC) {
		return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("the Pod has an interface %s already", l.ifname), "")
	}
	if !left {
		return nil
	}
	l.node.step("clear")
	return l.node.links.Delete(l.veth)
}

// reserve takes the Pod's addresses out of the node's ranges.
func (l *podLink) reserve(c *conf, args *skel.CmdArgs) error {
	namespace, name, uid := podArgs(args.Args)
	l.alias = podnet.VethAlias(namespace, name, args.IfName)
	r, err := l.node.store(c).Reserve(ipam.Reservation{
		Container: args.ContainerID, IfName: args.IfName, Network: c.Name, Netns: args.Netns, Veth: l.veth,
		Namespace: namespace, Pod: name, UID: uid, Ports: c.ports(), Since: time.Now(),
	}, l.config.PodCIDRs, l.node.dead)
	if errors.Is(err, ipam.ErrFull) {
		cause, _ := flow.CauseOf(flow.PodAddressesOut)
		return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("%s: %s (node %s): %v", cause.Code, cause.Title, l.config.Node, err), cause.Fix)
	}
	for i, a := range r.Addrs {
		l.ends = append(l.ends, end{addr: a, gateway: l.config.Gateways[i]})
	}
	return err
}

// dead reports whether a reservation is left of a Pod that is gone without a DEL, after a restart of the machine say.
func (p *plugin) dead(r ipam.Reservation) bool {
	if r.Container == "" {
		return true
	}
	if _, err := os.Stat(r.Netns); !errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, exists, err := p.links.Get(r.Veth)
	return err == nil && !exists
}

// single is the range of one address.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
