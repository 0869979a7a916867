package scenario

import (
	"os"
	"testing"

	"github.com/podway/podway/internal/nettest"
)

// nodeEnv makes this program a node's process: see TestMain.
const nodeEnv = "PODWAY_SCENARIO_TEST_NODE=1"

func TestEveryScenarioHoldsForTheKernel(t *testing.T) {
	nettest.Need(t)
	w, err := KernelWorld(KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}})
	if err != nil {
		t.Fatal(err)
	}
	checkAll(t, Kernel, w)
}
