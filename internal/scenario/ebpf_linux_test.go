package scenario

import (
	"os"
	"testing"

	"github.com/podway/podway/internal/nettest"
)

func TestEveryScenarioHoldsForTheKernelInModeEBPF(t *testing.T) {
	nettest.Need(t)
	nettest.Need(t, nettest.EBPF)
	w, err := KernelWorld(KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}, ProxyMode: ebpfMode})
	if err != nil {
		t.Fatal(err)
	}
	checkAll(t, Kernel, w)
}
