package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"k8s.io/kube-proxy/config/v1alpha1"
)

// kube-proxy's own defaults (k8s.io/kube-proxy/config/v1alpha1, Kubernetes 1.37), except where the field says otherwise.
const (
	healthzPort      = 10256
	metricsPort      = 10249
	defaultOOMScore  = -999
	defaultMark      = 14
	defaultSync      = 30 * time.Second
	defaultMinSync   = time.Second
	defaultResync    = 15 * time.Minute
	maxPerCore       = 32 << 10
	minTracked       = 128 << 10
	establishedTime  = 24 * time.Hour
	closeWaitTime    = time.Hour
	defaultQPS       = 5
	defaultBurst     = 10
	protobufType     = "application/vnd.kubernetes.protobuf"
	defaultLogFormat = "text"
)

// Default is a configuration in which nothing was said.
func Default() *v1alpha1.KubeProxyConfiguration {
	c := &v1alpha1.KubeProxyConfiguration{}
	Fill(c)
	return c
}

// Fill puts kube-proxy's defaults where nothing was said. mode and nodePortAddresses stay as they are: what their default
// is, Resolve knows.
func Fill(c *v1alpha1.KubeProxyConfiguration) {
	or(&c.BindAddress, "0.0.0.0")
	healthz, metrics := "0.0.0.0", "127.0.0.1"
	if a, err := netip.ParseAddr(c.BindAddress); err == nil && !a.Unmap().Is4() {
		healthz, metrics = "::", "::1"
	}
	c.HealthzBindAddress = address(c.HealthzBindAddress, healthz, healthzPort)
	c.MetricsBindAddress = address(c.MetricsBindAddress, metrics, metricsPort)
	orPointer(&c.OOMScoreAdj, defaultOOMScore)

	or(&c.IPTables.SyncPeriod.Duration, defaultSync)
	or(&c.IPTables.MinSyncPeriod.Duration, defaultMinSync)
	orPointer(&c.IPTables.LocalhostNodePorts, true)
	orPointer(&c.IPTables.MasqueradeBit, defaultMark)
	or(&c.IPVS.SyncPeriod.Duration, defaultSync)
	or(&c.NFTables.SyncPeriod.Duration, defaultSync)
	or(&c.NFTables.MinSyncPeriod.Duration, defaultMinSync)
	orPointer(&c.NFTables.MasqueradeBit, defaultMark)

	orPointer(&c.Conntrack.MaxPerCore, maxPerCore)
	orPointer(&c.Conntrack.Min, minTracked)
	period := c.ConfigSyncPeriod
	period.Duration = establishedTime
	orPointer(&c.Conntrack.TCPEstablishedTimeout, period)
	period.Duration = closeWaitTime
	orPointer(&c.Conntrack.TCPCloseWaitTimeout, period)

	or(&c.ConfigSyncPeriod.Duration, defaultResync)
	or(&c.ClientConnection.ContentType, protobufType)
	or(&c.ClientConnection.QPS, defaultQPS)
	or(&c.ClientConnection.Burst, defaultBurst)
	or(&c.Logging.Format, defaultLogFormat)
	if c.FeatureGates == nil {
		c.FeatureGates = map[string]bool{}
	}
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func orPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// address is where to listen: what was said, with the port when only an address was.
func address(said, host string, port int) string {
	if said == "" {
		return net.JoinHostPort(host, strconv.Itoa(port))
	}
	if _, err := netip.ParseAddr(strings.Trim(said, "[]")); err == nil {
		return net.JoinHostPort(strings.Trim(said, "[]"), strconv.Itoa(port))
	}
	return said
}
