package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	utilsysctl "k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/iptables"
	"k8s.io/kubernetes/pkg/proxy/metrics"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"
)

// peer is kube-proxy's proxier and what it was told so far.
type peer struct {
	proxier  proxy.Provider
	zone     string
	services map[string]*v1.Service
	slices   map[string]*discovery.EndpointSlice
	synced   bool
}

// defaults is KubeProxyConfiguration as kube-proxy completes an empty one for a mode, with detectLocalMode NodeCIDR.
func defaults(mode string) (*config.KubeProxyConfiguration, error) {
	bit, localhost := int32(14), true
	c := &config.KubeProxyConfiguration{
		Mode: config.ProxyMode(mode), DetectLocalMode: config.LocalModeNodeCIDR,
		SyncPeriod: metav1.Duration{Duration: 30 * time.Second}, MinSyncPeriod: metav1.Duration{Duration: time.Second},
	}
	switch c.Mode {
	case config.ProxyModeNFTables:
		c.NFTables.MasqueradeBit = &bit
	case config.ProxyModeIPTables:
		c.IPTables.MasqueradeBit, c.IPTables.LocalhostNodePorts = &bit, &localhost
	default:
		return nil, fmt.Errorf("mode %q is neither nftables nor iptables", mode)
	}
	return c, nil
}

// open makes the proxier of a mode for both address families. Nothing is written before the first sync.
func open(o *Open) (*peer, error) {
	c, err := defaults(o.Mode)
	if err != nil {
		return nil, err
	}
	addrs := nodeIPs(&o.Node)
	if addrs[v1.IPv4Protocol] == nil || addrs[v1.IPv6Protocol] == nil {
		return nil, errors.New("the node needs an InternalIP of each family")
	}
	if c.Mode == config.ProxyModeNFTables { // nodePortAddresses: primary, as kube-proxy resolves it
		c.NodePortAddresses = []string{addrs[v1.IPv4Protocol].String() + "/32", addrs[v1.IPv6Protocol].String() + "/128"}
	}
	metrics.RegisterMetrics(c.Mode)
	ctx := context.Background()
	health := healthcheck.NewProxyHealthServer("", 2*c.SyncPeriod.Duration, constantNode{&o.Node})
	local := detectors(&o.Node)
	p := &peer{services: map[string]*v1.Service{}, slices: map[string]*discovery.EndpointSlice{}}
	if c.Mode == config.ProxyModeNFTables {
		p.proxier, err = nftables.NewDualStackProxier(ctx, c, local, o.Node.Name, addrs, &events.FakeRecorder{}, health, false)
	} else {
		p.proxier, err = iptables.NewDualStackProxier(ctx, c, utiliptables.NewBestEffort(), utilsysctl.New(), local, o.Node.Name, addrs, &events.FakeRecorder{}, health, false)
	}
	if err != nil {
		return nil, err
	}
	p.proxier.OnServiceCIDRsChanged(o.ServiceCIDRs)
	p.topology(&o.Node)
	return p, nil
}

// constantNode answers for the health server.
type constantNode struct{ n *v1.Node }

func (c constantNode) Node() *v1.Node { return c.n }

// nodeIPs are the first InternalIPs.
func nodeIPs(n *v1.Node) map[v1.IPFamily]net.IP {
	out := map[v1.IPFamily]net.IP{}
	for _, a := range n.Status.Addresses {
		ip := net.ParseIP(a.Address)
		if a.Type != v1.NodeInternalIP || ip == nil {
			continue
		}
		family := v1.IPv6Protocol
		if ip.To4() != nil {
			family = v1.IPv4Protocol
		}
		if out[family] == nil {
			out[family] = ip
		}
	}
	return out
}

// detectors tell Pods of this node by its ranges.
func detectors(n *v1.Node) map[v1.IPFamily]proxyutil.LocalTrafficDetector {
	out := map[v1.IPFamily]proxyutil.LocalTrafficDetector{
		v1.IPv4Protocol: proxyutil.NewNoOpLocalDetector(), v1.IPv6Protocol: proxyutil.NewNoOpLocalDetector(),
	}
	for family, cidrs := range proxyutil.MapCIDRsByIPFamily(n.Spec.PodCIDRs) {
		out[family] = proxyutil.NewDetectLocalByCIDR(cidrs[0].String())
	}
	return out
}

// topology tells the proxier of the node's zone, the only label that it looks at, when that has changed.
func (p *peer) topology(n *v1.Node) {
	zone := n.Labels[v1.LabelTopologyZone]
	if zone == p.zone {
		return
	}
	p.zone = zone
	labels := map[string]string{}
	if zone != "" {
		labels[v1.LabelTopologyZone] = zone
	}
	p.proxier.OnTopologyChange(labels)
}
