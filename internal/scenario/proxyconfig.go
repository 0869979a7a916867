package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/kube-proxy/config/v1alpha1"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/config"
)

// proxyFile is the name of the file in a scenario that configures the service proxy of all its nodes.
const proxyFile = "proxy.yaml"

// proxyKeys are the keys of a KubeProxyConfiguration that change where traffic goes, which is what a scenario can tell.
var proxyKeys = []string{
	"nodePortAddresses", "detectLocalMode", "detectLocal.bridgeInterface", "detectLocal.interfaceNamePrefix", "clusterCIDR",
	"iptables.masqueradeAll", "iptables.masqueradeBit", "iptables.localhostNodePorts", "nftables.masqueradeAll",
	"ipvs.scheduler", "ipvs.excludeCIDRs", "ipvs.strictARP", "ipvs.tcpTimeout", "ipvs.tcpFinTimeout", "ipvs.udpTimeout",
	"featureGates.AllowServiceExternalIPs", "featureGates.KubeProxyNFTablesLocalhostNodePorts",
}

// proxyConfig reads the file. What is wrong is told with the line of the key, counted from 1, 0 for the whole.
func proxyConfig(data []byte) (*config.File, []Problem) {
	text := data
	if !hasHead.Match(data) {
		text = slices.Concat(fmt.Appendf(nil, "kind: %s\napiVersion: %s\n", config.Kind, config.APIVersion), data)
	}
	f, err := config.Load(proxyFile, text)
	if err != nil {
		return nil, []Problem{{Line: lineOf(data, err.Error()), Err: err}}
	}
	var problems []Problem
	for _, key := range f.Given {
		if err := usable(key); err != nil {
			problems = append(problems, Problem{Line: lineOf(data, key), Err: fmt.Errorf("%s: %s: %w", proxyFile, key, err)})
		}
	}
	c := f.KubeProxyConfiguration
	config.Fill(&c)
	if err := config.Check(&c); err != nil {
		problems = append(problems, Problem{Line: lineOf(data, err.Error()), Err: fmt.Errorf("%s: %w", proxyFile, err)})
	}
	return f, problems
}

// hasHead finds the fields that every Kubernetes object begins with; a file without them is completed.
var hasHead = regexp.MustCompile(`(?m)^(kind|apiVersion)\s*:`)

func usable(key string) error {
	switch {
	case slices.Contains(proxyKeys, key), key == "kind", key == "apiVersion":
		return nil
	case key == "mode":
		return errors.New("the mode is the run's (--proxy-mode); lines of one mode begin with [nftables], [iptables], [ipvs] or [ebpf]")
	}
	return fmt.Errorf("changes nothing in a scenario; there are %s", strings.Join(proxyKeys, ", "))
}

// lineOf is the line of the key that a text ends its first quoted word, or its first path, with.
func lineOf(data []byte, text string) int {
	path := text
	if m := quotedKey.FindStringSubmatch(text); m != nil {
		path = m[1]
	}
	path, _, _ = strings.Cut(path, ":")
	key := path[strings.LastIndexAny(path, ". ")+1:]
	key, _, _ = strings.Cut(key, "[")
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if at := bytes.Index(line, []byte(key+":")); key != "" && at >= 0 {
			return n
		}
	}
	return 0
}

var quotedKey = regexp.MustCompile(`field "([^"]+)"`)

// Settings are what the scenario's proxy.yaml means in a mode of the service proxy ("" = the default one). What it does not
// say is as in a scenario without the file: Pods of a node are told by spec.podCIDRs, node ports answer at the node's
// primary addresses.
func (s *State) Settings(mode string) proxy.Settings {
	if s.proxy == nil {
		return proxy.Settings{}
	}
	c := s.proxy.KubeProxyConfiguration
	c.Mode = v1alpha1.ProxyMode(mode)
	config.Fill(&c)
	out := config.Resolve(&c).Settings
	if len(c.NodePortAddresses) == 0 {
		out.NodePorts = proxy.NodePortAddresses{}
	}
	if c.DetectLocalMode == "" && c.ClusterCIDR == "" {
		out.LocalPods = proxy.LocalPods{}
	}
	return out
}
