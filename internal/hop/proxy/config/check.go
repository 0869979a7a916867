package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/kube-proxy/config/v1alpha1"
)

// The keywords of nodePortAddresses.
const (
	primary   = "primary"
	localhost = "localhost"
	all       = "all"
)

// The values of detectLocalMode.
const (
	clusterCIDR         = "ClusterCIDR"
	nodeCIDR            = "NodeCIDR"
	bridgeInterface     = "BridgeInterface"
	interfaceNamePrefix = "InterfaceNamePrefix"
)

var localModes = []string{clusterCIDR, nodeCIDR, bridgeInterface, interfaceNamePrefix}

// Modes are the proxy modes that a configuration may name; the first is what "" stands for.
var Modes = []string{"nftables", "iptables", "ipvs", "ebpf"}

// checks collects what is wrong, one error for each key.
type checks struct{ errs []error }

func (k *checks) wrong(key string, value any, format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("%s: %v: %s", key, quoted(value), fmt.Sprintf(format, args...)))
}

func quoted(v any) any {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return v
}

// Check reports every value that cannot be meant, each with its key. The rules are kube-proxy's.
func Check(c *v1alpha1.KubeProxyConfiguration) error {
	k := &checks{}
	k.mode(c)
	k.addresses(c)
	k.local(c)
	for i, s := range c.NodePortAddresses {
		k.nodePorts(fmt.Sprintf("nodePortAddresses[%d]", i), s, slices.Index(c.NodePortAddresses, s) < i)
	}
	k.bit("iptables.masqueradeBit", c.IPTables.MasqueradeBit)
	k.bit("nftables.masqueradeBit", c.NFTables.MasqueradeBit)
	k.between("oomScoreAdj", c.OOMScoreAdj, -1000, 1000)
	k.notNegative("conntrack.maxPerCore", c.Conntrack.MaxPerCore)
	k.notNegative("conntrack.min", c.Conntrack.Min)
	if c.ClientConnection.Burst < 0 {
		k.wrong("clientConnection.burst", c.ClientConnection.Burst, "must not be negative")
	}
	k.times(c)
	for i, s := range c.IPVS.ExcludeCIDRs {
		k.prefix(fmt.Sprintf("ipvs.excludeCIDRs[%d]", i), s)
	}
	if f := c.Logging.Format; f != "" && f != "text" && f != "json" {
		k.wrong("logging.format", f, "want text or json")
	}
	return errors.Join(k.errs...)
}

func (k *checks) mode(c *v1alpha1.KubeProxyConfiguration) {
	if m := string(c.Mode); m != "" && !slices.Contains(Modes, m) {
		k.wrong("mode", m, "want %s, or nothing for %s", strings.Join(Modes, ", "), Modes[0])
	}
}

func (k *checks) addresses(c *v1alpha1.KubeProxyConfiguration) {
	if _, err := netip.ParseAddr(c.BindAddress); err != nil {
		k.wrong("bindAddress", c.BindAddress, "want an IP address")
	}
	for _, a := range []struct{ key, value string }{{"healthzBindAddress", c.HealthzBindAddress}, {"metricsBindAddress", c.MetricsBindAddress}} {
		if a.value == "" {
			continue // switched off
		}
		if p, err := netip.ParseAddrPort(a.value); err != nil || p.Port() == 0 {
			k.wrong(a.key, a.value, "want ADDRESS:PORT, such as 0.0.0.0:10256 or [::]:10256")
		}
	}
}

func (k *checks) local(c *v1alpha1.KubeProxyConfiguration) {
	mode := string(c.DetectLocalMode)
	if mode != "" && !slices.Contains(localModes, mode) {
		k.wrong("detectLocalMode", mode, "want %s", strings.Join(localModes, ", "))
	}
	switch mode {
	case bridgeInterface:
		if c.DetectLocal.BridgeInterface == "" {
			k.wrong("detectLocal.bridgeInterface", "", "detectLocalMode %s needs the bridge's name", mode)
		}
	case interfaceNamePrefix:
		if c.DetectLocal.InterfaceNamePrefix == "" {
			k.wrong("detectLocal.interfaceNamePrefix", "", "detectLocalMode %s needs the beginning of the Pods' devices' names", mode)
		}
	case "", clusterCIDR:
		k.clusterCIDR(c.ClusterCIDR)
	}
}

func (k *checks) clusterCIDR(list string) {
	if list == "" {
		return
	}
	var found []netip.Prefix
	for _, s := range strings.Split(list, ",") {
		if p, ok := k.prefix("clusterCIDR", s); ok {
			found = append(found, p)
		}
	}
	if len(found) > 2 || len(found) == 2 && found[0].Addr().Is4() == found[1].Addr().Is4() {
		k.wrong("clusterCIDR", list, "want one range, or one of each address family")
	}
}

func (k *checks) nodePorts(key, s string, again bool) {
	switch s {
	case primary, localhost, all:
		if again {
			k.wrong(key, s, "stands there twice")
		}
	default:
		if _, err := netip.ParsePrefix(s); err != nil {
			k.wrong(key, s, "want a range such as 192.168.0.0/16, or %s, %s or %s", primary, localhost, all)
		}
	}
}

func (k *checks) prefix(key, s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(strings.TrimSpace(s))
	if err != nil {
		k.wrong(key, s, "want a range such as 10.244.0.0/16")
	}
	return p.Masked(), err == nil
}

func (k *checks) bit(key string, bit *int32) { k.between(key, bit, 0, 31) }

func (k *checks) between(key string, v *int32, low, high int32) {
	if v != nil && (*v < low || *v > high) {
		k.wrong(key, *v, "want %d to %d", low, high)
	}
}

func (k *checks) notNegative(key string, v *int32) {
	if v != nil && *v < 0 {
		k.wrong(key, *v, "must not be negative")
	}
}

func (k *checks) times(c *v1alpha1.KubeProxyConfiguration) {
	atLeast := func(key string, d time.Duration) {
		if d < 0 {
			k.wrong(key, d, "must not be negative")
		}
	}
	if t := c.Conntrack.TCPEstablishedTimeout; t != nil {
		atLeast("conntrack.tcpEstablishedTimeout", t.Duration)
	}
	if t := c.Conntrack.TCPCloseWaitTimeout; t != nil {
		atLeast("conntrack.tcpCloseWaitTimeout", t.Duration)
	}
	atLeast("conntrack.udpTimeout", c.Conntrack.UDPTimeout.Duration)
	atLeast("conntrack.udpStreamTimeout", c.Conntrack.UDPStreamTimeout.Duration)
	atLeast("ipvs.tcpTimeout", c.IPVS.TCPTimeout.Duration)
	atLeast("ipvs.tcpFinTimeout", c.IPVS.TCPFinTimeout.Duration)
	atLeast("ipvs.udpTimeout", c.IPVS.UDPTimeout.Duration)
	if d := c.ConfigSyncPeriod.Duration; d <= 0 {
		k.wrong("configSyncPeriod", d, "must be greater than 0")
	}
	key, sync, min := periods(c)
	if sync <= 0 {
		k.wrong(key+".syncPeriod", sync, "must be greater than 0")
	}
	if min < 0 || min > sync {
		k.wrong(key+".minSyncPeriod", min, "want 0 to the syncPeriod, %v", sync)
	}
}

// periods are those of the section that counts for the mode.
func periods(c *v1alpha1.KubeProxyConfiguration) (section string, sync, least time.Duration) {
	switch c.Mode {
	case "ipvs":
		return "ipvs", c.IPVS.SyncPeriod.Duration, c.IPVS.MinSyncPeriod.Duration
	case "iptables":
		return "iptables", c.IPTables.SyncPeriod.Duration, c.IPTables.MinSyncPeriod.Duration
	}
	return "nftables", c.NFTables.SyncPeriod.Duration, c.NFTables.MinSyncPeriod.Duration
}
