// Command oracle plays random clusters, or scenario files, on podway's service proxy and on another one side by side, sends
// real packets through both, and says where they differ (package internal/oracle). It needs root and changes nothing but
// network namespaces of its own. Exit code: 0 nothing unexplained, 1 something is, 2 it could not run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/cni"
	"github.com/podway/podway/internal/oracle"
	"github.com/podway/podway/internal/scenario"
)

const nodeEnv = "PODWAY_ORACLE_NODE"

// main is also the process of a node and the CNI plugin, when a world started this program as such.
func main() {
	switch {
	case os.Getenv("CNI_COMMAND") != "":
		os.Exit(cni.Main(podnet.PluginName))
	case os.Getenv(nodeEnv) != "":
		os.Exit(scenario.NodeMain(context.Background(), os.Stdin, os.Stdout, openHops))
	}
	os.Exit(run())
}

func openHops(o scenario.NodeOptions) ([]hop.Hop, error) {
	return agent.Hops(o.Hops(agent.HopNames()), agent.Options{Node: o.Node, ClusterCIDRs: scenario.ClusterCIDRs, ServiceCIDRs: scenario.ServiceCIDRs,
		ResolvConf: o.ResolvConf(), ProxyMode: o.ProxyMode, Podnet: podnet.Options{ConfigPath: o.ConfigPath(), StoreDir: o.StoreDir()}})
}

func run() int {
	seed := flag.Uint64("seed", 1, "of the random cases")
	first := flag.Int("first", 0, "number of the first case")
	cases := flag.Int("cases", 200, "how many cases")
	atOnce := flag.Int("at-once", 2, "cases at the same time")
	mode := flag.String("mode", "nftables", "podway's proxy mode: "+strings.Join(agent.ProxyModes(), ", "))
	peer := flag.String("peer", "kube-proxy", "what it is compared with: kube-proxy (its nftables mode), kube-proxy-iptables, or podway-MODE")
	program := flag.String("kube-proxy", "bin/kubeproxy", "the program built from lab/kubeproxy")
	dir := flag.String("dir", "bin/differences", "where scenarios of differences are written")
	share := flag.Int("share", 30, "percent of the questions about each state that are asked, by chance")
	small := flag.Bool("shrink", true, "make cases that differ small")
	flag.Parse()
	debug.SetGCPercent(400)
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		return 2
	}
	o := oracle.Options{PeerName: *peer, Seed: *seed, First: *first, Cases: *cases, Replay: flag.Args(), AtOnce: *atOnce, Dir: *dir, Shrink: *small, Share: *share}
	o.Podway = scenario.KernelOptions{Program: self, Env: []string{nodeEnv + "=1", "GOGC=400"}, ProxyMode: *mode}
	o.Peer = o.Podway
	if kube, other := strings.CutPrefix(*peer, "podway-"); other {
		o.Peer.ProxyMode = kube
	} else if kube == "kube-proxy" || kube == "kube-proxy-iptables" {
		o.Peer.KubeProxy = scenario.KubeProxy{Program: *program, Mode: map[string]string{"kube-proxy": "nftables", "kube-proxy-iptables": "iptables"}[kube]}
	} else {
		fmt.Fprintf(os.Stderr, "oracle: -peer %s is none of kube-proxy, kube-proxy-iptables, podway-MODE\n", *peer)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sum, err := oracle.Run(ctx, os.Stdout, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "oracle:", err)
		return 2
	case !sum.Good():
		return 1
	}
	return 0
}
