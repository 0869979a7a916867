package main

import (
	"os"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // a user's own kubeconfig may ask for one
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// newKubectlCommand reads -v by hand first: kubectl logs while its commands are put together, before flags are parsed.
func newKubectlCommand() *cobra.Command {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	return kubectl.NewDefaultKubectlCommand()
}

// runKubectl runs kubectl with its own way of printing errors and choosing exit codes (a plugin's code is kept).
func runKubectl(cmd *cobra.Command) int {
	if err := cli.RunNoErrOutput(cmd); err != nil {
		util.CheckErr(err)
	}
	return 0
}
