package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// version is set by the build (-ldflags -X).
var version = "dev"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "podway", version)
			return err
		},
	}
}
