package main

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd/util"
)

// runKubectl runs kubectl with its own way of printing errors and choosing exit codes (a plugin's code is kept).
func runKubectl(cmd *cobra.Command) int {
	if err := cli.RunNoErrOutput(cmd); err != nil {
		util.CheckErr(err)
	}
	return 0
}
