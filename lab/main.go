// Command podway-lab is Kubernetes on one machine in one executable: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubelet, kube-proxy and kubectl, unchanged, each started by its own name as a process of its own.
//
// It owns nothing but the choice of the component. What is started where, with which flags, is decided by
// `podway up`, which knows this program only by its command line; the two modules import nothing of each other.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "time/tzdata" // schedules with a time zone work on hosts without zoneinfo

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const name = "podway-lab"

// components are made only when asked for: each command registers its flags in process-wide sets.
var components = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":              proxy.NewProxyCommand, // podway up starts none: podway is measured beside it, and takes its place
	"kubectl":                 newKubectlCommand,
}

func main() {
	args := componentArgs(os.Args)
	if len(args) == 0 || components[args[0]] == nil {
		fmt.Fprintf(os.Stderr, "usage: %s COMPONENT [FLAGS], where COMPONENT is one of %s\n", name, strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Args = args // cobra, and kubectl's plugin search, read the process's arguments
	cmd := components[args[0]]()
	if args[0] == "kubectl" {
		os.Exit(runKubectl(cmd))
	}
	os.Exit(cli.Run(cmd))
}

// componentArgs returns the component and its arguments: the first argument names it, or the name under which the
// program was called (a link called kubectl is kubectl).
func componentArgs(argv []string) []string {
	if base := filepath.Base(argv[0]); components[base] != nil {
		return append([]string{base}, argv[1:]...)
	}
	return argv[1:]
}

func names() []string {
	var all []string
	for n := range components {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}
