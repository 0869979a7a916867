package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/cni"
)

// cniMain runs the CNI plugin when a container runtime started this process as one: by the name of its file, or as
// `podway cni`. It comes before all else, since every start and end of a Pod waits for it.
func cniMain(program string, args []string) (code int, ran bool) {
	if name, ok := cni.NameOf(program); ok {
		return cni.Main(name), true
	}
	if len(args) == 1 && args[0] == "cni" && os.Getenv("CNI_COMMAND") != "" {
		return cni.Main(podnet.PluginName), true
	}
	return 0, false
}

func newCNI() *cobra.Command {
	return &cobra.Command{
		Use:   "cni",
		Short: "The CNI plugin; a container runtime starts it, not you",
		Long: `The CNI plugin (specification 1.1) of the pod network. A container runtime starts it with the environment variables
CNI_COMMAND, CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME and CNI_PATH and the network's configuration on standard input.
It is also what this executable is under the file name podway-cni.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if code := cni.Main(podnet.PluginName); code != 0 {
				return exitWith(code, nil)
			}
			return nil
		},
	}
}
