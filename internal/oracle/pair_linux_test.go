package oracle

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/cni"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/scenario"
)

const nodeEnv = "PODWAY_ORACLE_TEST_NODE=1"

// TestMain is also the process of a node and the CNI plugin, when a world started this program as such.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("CNI_COMMAND") != "":
		os.Exit(cni.Main(podnet.PluginName))
	case os.Getenv("PODWAY_ORACLE_TEST_NODE") != "":
		os.Exit(scenario.NodeMain(context.Background(), os.Stdin, os.Stdout, func(o scenario.NodeOptions) ([]hop.Hop, error) {
			return agent.Hops(o.Hops(agent.HopNames()), agent.Options{Node: o.Node, ClusterCIDRs: scenario.ClusterCIDRs, ServiceCIDRs: scenario.ServiceCIDRs,
				ResolvConf: o.ResolvConf(), ProxyMode: o.ProxyMode, Podnet: podnet.Options{ConfigPath: o.ConfigPath(), StoreDir: o.StoreDir()}})
		}))
	}
	os.Exit(m.Run())
}

func options() scenario.KernelOptions {
	return scenario.KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}}
}

func TestPodwayIsLikeItself(t *testing.T) {
	nettest.Need(t)
	p, err := openPair(options(), options(), 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close() })
	for i := range 2 {
		o, err := p.run(t.Context(), Generate(1, i))
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Findings) > 0 || o.States < 3 || o.Connections < 100 {
			t.Errorf("%d states, %d connections, findings %v", o.States, o.Connections, o.Findings)
		}
	}
}

func TestANodeWithoutAProxyIsNotLikePodway(t *testing.T) {
	nettest.Need(t)
	p, err := openPair(options(), options(), 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close() })
	peer := p.sides[1]
	p.sides[1] = nil
	without := options()
	without.KubeProxy.Program = "/bin/false" // nobody answers for it
	if err := peer.close(); err != nil {
		t.Error(err)
	}
	if _, err := openWorld(without); err == nil || !strings.Contains(err.Error(), "kube-proxy") {
		t.Errorf("a peer that does not run: %v", err)
	}
	p.sides[1], err = openWorld(options())
	if err != nil {
		t.Fatal(err)
	}
	c := Generate(1, 0)
	if _, err := p.run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	// The peer is told nothing of the last case's end: its Services stay while podway's go.
	f, err := bare().file()
	if err != nil {
		t.Fatal(err)
	}
	w := p.sides[0]
	if err := w.live.Load(f); err != nil {
		t.Fatal(err)
	}
	if err := w.live.Step(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	last, err := c.file()
	if err != nil {
		t.Fatal(err)
	}
	r := &playing{pair: p, file: last, out: &Outcome{}, long: newLongFlows(), state: last.Steps[len(last.Steps)-1].State}
	if err := r.connections(t.Context(), r.sample(Probes(r.state))); err != nil {
		t.Fatal(err)
	}
	if len(r.out.unexplained()) == 0 {
		t.Error("a side without Services is not told from one with them")
	}
}
