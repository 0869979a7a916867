//go:build !linux

package cli

import "github.com/spf13/cobra"

// newDaemons is empty: nodes run Linux. Trace, doctor, scenarios at level model and rules work everywhere.
func newDaemons() []*cobra.Command { return nil }
