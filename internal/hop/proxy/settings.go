package proxy

import (
	"net/netip"
	"slices"
	"time"
)

// Settings are what an operator chooses for a node's proxy, the same for every backend; the zero value is the default.
// They carry the fields of KubeProxyConfiguration (k8s.io/kube-proxy/config/v1alpha1) that change where traffic goes.
type Settings struct {
	// NodePorts says which addresses of the node answer to node ports (nodePortAddresses).
	NodePorts NodePortAddresses
	// LocalPods says how a Pod of this node is told from other clients (detectLocalMode).
	LocalPods LocalPods
	// MasqueradeAll hides every client behind the node's address, also Pods of this node (masqueradeAll).
	MasqueradeAll bool
	// MasqueradeMark is the bit of a packet's mark by which iptables and ipvs remember what to masquerade; 0 = 0x4000
	// (masqueradeBit). nftables needs none.
	MasqueradeMark uint32
	// NoExternalIPs leaves spec.externalIPs of all Services out (KEP-5707).
	NoExternalIPs bool
	// ProxyName is the value of the label service.kubernetes.io/service-proxy-name of the Services that are this proxy's;
	// "" = those without the label.
	ProxyName string
	// NodeAddr is taken for the node's primary address of its family instead of what the Node object says (bindAddress).
	NodeAddr netip.Addr
	// IPVS are settings of mode ipvs alone.
	IPVS IPVSSettings
}

// IPVSSettings are the ipvs section of KubeProxyConfiguration.
type IPVSSettings struct {
	Scheduler string         // "" = rr
	Exclude   []netip.Prefix // virtual servers in these are somebody else's (excludeCIDRs)
	StrictARP bool           // the node answers ARP only for addresses of the device that is asked; always beside hop announce
	// Timeouts of connections; 0 leaves the kernel's.
	TCPTimeout, TCPFinTimeout, UDPTimeout time.Duration
}

func (s *IPVSSettings) equal(o *IPVSSettings) bool {
	return s.Scheduler == o.Scheduler && slices.Equal(s.Exclude, o.Exclude) && s.StrictARP == o.StrictARP &&
		s.TCPTimeout == o.TCPTimeout && s.TCPFinTimeout == o.TCPFinTimeout && s.UDPTimeout == o.UDPTimeout
}

// NodePortAddresses says which addresses of the node answer to node ports; the zero value is the primary address of each
// family.
type NodePortAddresses struct {
	All      bool           // every address of the node, loopback apart
	Loopback bool           // 127.0.0.1 and, where the backend can, ::1 too
	In       []netip.Prefix // those of the node's addresses that are in one of these; a family without one is not limited
	Primary  bool           // beside In: the primary address of each family too; a family with one is limited
}

// LocalPods says how a Pod of this node is told from other clients; the zero value is by the node's spec.podCIDRs.
type LocalPods struct {
	Mode LocalMode
	// CIDRs are the ranges for ByClusterCIDR.
	CIDRs []netip.Prefix
	// Interface is the bridge's name for ByBridge, the beginning of the names of the Pods' devices for ByInterfacePrefix.
	Interface string
}

// LocalMode is a detectLocalMode of kube-proxy.
type LocalMode uint8

// The modes.
const (
	ByNodeCIDR LocalMode = iota
	ByClusterCIDR
	ByBridge
	ByInterfacePrefix
)

// DefaultMasqueradeMark is kube-proxy's: bit 14.
const DefaultMasqueradeMark = 1 << 14

// Mark is the mark to use.
func (s *Settings) Mark() uint32 {
	if s.MasqueradeMark == 0 {
		return DefaultMasqueradeMark
	}
	return s.MasqueradeMark
}

// Equal reports whether two settings lead traffic the same way.
func (s *Settings) Equal(o *Settings) bool {
	return s.NodePorts.All == o.NodePorts.All && s.NodePorts.Loopback == o.NodePorts.Loopback && slices.Equal(s.NodePorts.In, o.NodePorts.In) &&
		s.NodePorts.Primary == o.NodePorts.Primary && s.NodeAddr == o.NodeAddr && s.IPVS.equal(&o.IPVS) && s.LocalPods.equal(&o.LocalPods) && s.MasqueradeAll == o.MasqueradeAll && s.Mark() == o.Mark() &&
		s.NoExternalIPs == o.NoExternalIPs && s.ProxyName == o.ProxyName
}

func (l *LocalPods) equal(o *LocalPods) bool {
	return l.Mode == o.Mode && l.Interface == o.Interface && slices.Equal(l.CIDRs, o.CIDRs)
}
