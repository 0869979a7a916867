package scenario

import (
	"os"
	"testing"

	"github.com/podway/podway/internal/nettest"
)

// nodeEnv makes this program a node's process: see TestMain.
const nodeEnv = "PODWAY_SCENARIO_TEST_NODE=1"

// Mode ipvs has a test of its own: the kernel that tests run on mostly lacks it.
func TestEveryScenarioHoldsForTheKernel(t *testing.T) {
	nettest.Need(t)
	nettest.Need(t, nettest.EBPF)
	for _, mode := range []string{"nftables", "iptables", ebpfMode} {
		t.Run(mode, func(t *testing.T) {
			w, err := KernelWorld(KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}, ProxyMode: mode})
			if err != nil {
				t.Fatal(err)
			}
			checkAll(t, Kernel, w)
		})
	}
}
