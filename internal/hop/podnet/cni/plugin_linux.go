package cni

import (
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// plugin is one run of the plugin, in the node's network namespace.
type plugin struct {
	step   func(string) // told before each change; tests crash there
	links  *link.Kernel
	routes *route.Kernel
	sysctl *sysctl.Kernel
}

// Main runs the plugin, or when name is Loopback that one, on the process's environment and standard input, as a container
// runtime starts it, and returns the exit code.
func Main(name string) int {
	if name == Loopback {
		return runLoopback()
	}
	return run(func(string) {})
}

func run(step func(string)) int {
	p := &plugin{step: step, sysctl: sysctl.Open(nil)}
	funcs := skel.CNIFuncs{
		Add: p.opened(p.add), Del: p.opened(p.del), Check: p.opened(p.check), GC: p.opened(p.gc), Status: p.status,
	}
	return exitCode(skel.PluginMainFuncsWithError(funcs, versions, "podway's CNI plugin: the container runtime starts it"))
}

var versions = version.VersionsStartingFrom("0.3.1")

func exitCode(err *types.Error) int {
	if err == nil {
		return 0
	}
	if err := err.Print(); err != nil {
		log.Print("podway-cni: print error: ", err)
	}
	return 1
}

// opened opens the doors around a command.
func (p *plugin) opened(f func(*skel.CmdArgs) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) (err error) {
		if p.links, err = link.Open(nil); err != nil {
			return err
		}
		defer p.links.Close()
		if p.routes, err = route.Open(nil); err != nil {
			return err
		}
		defer p.routes.Close()
		return f(args)
	}
}

// conf is the plugin's part of the network configuration.
type conf struct {
	types.PluginConf
	Config string `json:"config"` // path of the podnet.NodeConfig
	Store  string `json:"store"`  // folder of the reservations
	// RuntimeConfig has the hostPorts of the Pod's containers (capability portMappings).
	RuntimeConfig struct {
		PortMappings []portMapping `json:"portMappings"`
	} `json:"runtimeConfig"`
}

func parse(stdin []byte) (*conf, error) {
	c := &conf{Config: podnet.DefaultConfigPath, Store: podnet.DefaultStoreDir}
	if err := json.Unmarshal(stdin, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "network configuration: "+err.Error(), "")
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "prevResult: "+err.Error(), "")
	}
	return c, nil
}

func (p *plugin) store(c *conf) *ipam.Store {
	s := ipam.Open(c.Store)
	s.OnStep(p.step)
	return s
}

// podArgs reads CNI_ARGS, "K=V;K=V", of which a kubelet fills in the Pod's name.
func podArgs(args string) (namespace, name, uid string) {
	for kv := range strings.SplitSeq(args, ";") {
		switch k, v, _ := strings.Cut(kv, "="); k {
		case "K8S_POD_NAMESPACE":
			namespace = v
		case "K8S_POD_NAME":
			name = v
		case "K8S_POD_UID":
			uid = v
		}
	}
	return namespace, name, uid
}

// status says whether an ADD could work.
func (p *plugin) status(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := podnet.ReadNodeConfig(c.Config); err != nil {
		return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
	}
	if _, err := ipam.Open(c.Store).List(); err != nil {
		return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
	}
	return nil
}

// del takes the link away, then gives the address back: it is free only when nobody uses it. It needs neither the Pod's
// namespace nor the node's configuration, and what is not there is no error.
func (p *plugin) del(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	p.step("delete link")
	if err := p.links.Delete(podnet.VethName(args.ContainerID, args.IfName)); err != nil {
		return err
	}
	s := p.store(c)
	r, _, err := s.Find(args.ContainerID, args.IfName)
	if err != nil {
		return err
	}
	if err := s.Release(args.ContainerID, args.IfName); err != nil || len(r.Ports) == 0 {
		return err
	}
	return p.syncPorts(s)
}

// gc takes away the links and reservations of this network that belong to no attachment that the runtime knows.
func (p *plugin) gc(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	valid := map[string]bool{}
	for _, a := range c.ValidAttachments {
		valid[podnet.VethName(a.ContainerID, a.IfName)] = true
	}
	s := p.store(c)
	all, err := s.List()
	if err != nil {
		return err
	}
	gone := func(r ipam.Reservation) bool {
		return r.Container == "" || r.Network == c.Name && !valid[podnet.VethName(r.Container, r.IfName)]
	}
	for _, r := range all {
		if !gone(r) || r.Container == "" {
			continue
		}
		p.step("delete link")
		if err := p.links.Delete(podnet.VethName(r.Container, r.IfName)); err != nil {
			return fmt.Errorf("cni: gc of container %s: %w", r.Container, err)
		}
	}
	if err := s.Drop(gone); err != nil {
		return err
	}
	return p.syncPorts(s)
}
