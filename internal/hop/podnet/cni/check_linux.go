package cni

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/route"
)

// check says whether the link of an interface of a Pod is as ADD made it: all that is wrong, not the first thing only.
func (p *plugin) check(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if c.PrevResult == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "prevResult is missing: CHECK compares with it", "")
	}
	r, ok, err := p.store(c).Find(args.ContainerID, args.IfName)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("cni: check: no address is reserved for %s of container %s", args.IfName, args.ContainerID)
	}
	ns, err := p.openPod(args.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	l, err := p.newPodLink(args, ns, podnet.NodeConfig{})
	if err != nil {
		return err
	}
	defer l.close()
	wrong := []error{l.checkResult(c, r.Addrs)}
	for _, a := range r.Addrs {
		wrong = append(wrong, p.checkRoute(a, l.veth, single(a)), l.pod.checkRoute(a, l.ifname, everything(a)))
	}
	wrong = append(wrong, p.checkDevice(l.veth, l.hostMAC, nil), l.pod.checkDevice(l.ifname, l.podMAC, r.Addrs))
	return errors.Join(wrong...)
}

// checkResult compares the addresses that the runtime was told with those that are reserved.
func (l *podLink) checkResult(c *conf, reserved []netip.Addr) error {
	var told []netip.Addr
	for _, ip := range resultOf(c).IPs {
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			told = append(told, a.Unmap())
		}
	}
	for _, a := range reserved {
		if !slices.Contains(told, a) {
			return fmt.Errorf("cni: check: %s is reserved but not in prevResult", a)
		}
	}
	return nil
}

func (p *plugin) checkDevice(name string, mac link.MAC, addrs []netip.Addr) error {
	l, ok, err := p.links.Get(name)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("cni: check: device %s is missing", name)
	case !l.Up:
		return fmt.Errorf("cni: check: device %s is down", name)
	case l.MAC != mac:
		return fmt.Errorf("cni: check: device %s has the Ethernet address %s, not %s", name, l.MAC, mac)
	}
	for _, a := range addrs {
		if !slices.Contains(l.Addrs, single(a)) {
			return fmt.Errorf("cni: check: device %s lacks the address %s", name, a)
		}
	}
	return nil
}

func (p *plugin) checkRoute(a netip.Addr, device string, dst netip.Prefix) error {
	routes, err := p.routes.Routes()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(routes, func(r route.Route) bool { return r.Dst == dst && r.Device == device && r.Type == "" }) {
		return fmt.Errorf("cni: check: address %s: no route to %s by device %s", a, dst, device)
	}
	return nil
}
