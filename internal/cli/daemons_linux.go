package cli

import "github.com/spf13/cobra"

// newDaemons are the long-running parts, which need Linux.
func newDaemons() []*cobra.Command {
	return []*cobra.Command{newNode(), newProxy(), newController(), newIngress(), newCleanup(), newTakeover()}
}
