package podnettest

import (
	"os"
	"testing"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/cni"
)

// Main runs the tests, or is the CNI plugin when a Runtime started this program as one.
func Main(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" {
		os.Exit(cni.Main(podnet.PluginName))
	}
	os.Exit(m.Run())
}
