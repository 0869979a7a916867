package scenario_test

import (
	"context"
	"os"
	"testing"

	"github.com/podway/podway/internal/agent/scenarionode"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/cni"
	"github.com/podway/podway/internal/scenario"
)

// TestMain is also the process of a node and the CNI plugin, when a kernel world started this program as such.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("CNI_COMMAND") != "":
		os.Exit(cni.Main(podnet.PluginName))
	case os.Getenv("PODWAY_SCENARIO_TEST_NODE") != "":
		os.Exit(scenario.NodeMain(context.Background(), os.Stdin, os.Stdout, scenarionode.Hops))
	}
	scenario.OpenHops = scenarionode.Hops
	os.Exit(m.Run())
}
