package scenario

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/ingress"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/cni"
	"github.com/podway/podway/internal/nettest"
)

const nodeEnv = "PODWAY_SCENARIO_TEST_NODE=1"

// TestMain is also the process of a node and the CNI plugin, when a kernel world started this program as such.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("CNI_COMMAND") != "":
		os.Exit(cni.Main(podnet.PluginName))
	case os.Getenv("PODWAY_SCENARIO_TEST_NODE") != "":
		os.Exit(NodeMain(context.Background(), os.Stdin, os.Stdout, openHops))
	}
	os.Exit(m.Run())
}

func openHops(o NodeOptions) ([]hop.Hop, error) {
	if o.Ingress {
		any4 := netip.IPv4Unspecified()
		h, err := ingress.New(ingress.Options{HTTP: []netip.AddrPort{netip.AddrPortFrom(any4, IngressHTTP)}, HTTPS: []netip.AddrPort{netip.AddrPortFrom(any4, IngressHTTPS)}})
		return []hop.Hop{h}, err
	}
	opt := agent.Options{Node: o.Node, ClusterCIDRs: ClusterCIDRs, ServiceCIDRs: ServiceCIDRs, ResolvConf: o.ResolvConf(),
		ProxyMode: o.ProxyMode, Podnet: podnet.Options{ConfigPath: o.ConfigPath(), StoreDir: o.StoreDir()}}
	for _, a := range o.Addrs {
		opt.DNSListen = append(opt.DNSListen, netip.AddrPortFrom(a, DNSPort))
	}
	return agent.Hops(o.Hops(agent.HopNames()), opt)
}

func TestEveryScenarioHoldsForTheKernel(t *testing.T) {
	nettest.Need(t)
	w, err := KernelWorld(KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}})
	if err != nil {
		t.Fatal(err)
	}
	checkAll(t, Kernel, w)
}
