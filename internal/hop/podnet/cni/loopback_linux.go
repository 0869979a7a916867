package cni

import (
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/podway/podway/internal/kernel/link"
)

// runLoopback is the plugin "loopback".
func runLoopback() int {
	nothing := func(*skel.CmdArgs) error { return nil }
	funcs := skel.CNIFuncs{Add: addLoopback, Check: checkLoopback, Del: nothing, GC: nothing, Status: nothing}
	return exitCode(skel.PluginMainFuncsWithError(funcs, versions, "podway's loopback CNI plugin: the container runtime starts it"))
}

func addLoopback(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if err := inPod(args, func(links *link.Kernel) error { return links.SetUp("lo", true) }); err != nil {
		return err
	}
	out, device := resultOf(c), 0
	if len(out.Interfaces) == 0 {
		out.Interfaces = []*types100.Interface{{Name: "lo", Mac: link.MAC{}.String(), Sandbox: args.Netns}}
		for _, p := range []string{"127.0.0.1/8", "::1/128"} {
			out.IPs = append(out.IPs, &types100.IPConfig{Interface: &device, Address: *ipNet(netip.MustParsePrefix(p))})
		}
	}
	return types.PrintResult(out, c.CNIVersion)
}

func checkLoopback(args *skel.CmdArgs) error {
	return inPod(args, func(links *link.Kernel) error {
		return (&plugin{links: links}).checkDevice("lo", link.MAC{}, nil)
	})
}

func inPod(args *skel.CmdArgs, f func(*link.Kernel) error) error {
	ns, err := (&plugin{}).openPod(args.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	links, err := link.Open(ns)
	if err != nil {
		return err
	}
	defer links.Close()
	return f(links)
}
