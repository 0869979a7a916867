package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/lab/spec"
)

const bridgeName = "nodes" // in the control plane's namespace

// Network is a lab's network.
type Network struct {
	Control *Namespace // the control plane; it has the bridge, and is the nodes' default gateway
	Outside *Namespace
	Client  *Namespace
}

// Build makes the network without nodes.
func Build() (*Network, error) {
	n := &Network{}
	for _, ns := range []**Namespace{&n.Control, &n.Outside, &n.Client} {
		made, err := New()
		if err != nil {
			n.Close()
			return nil, err
		}
		*ns = made
	}
	for _, step := range []func() error{n.buildControl, n.buildOutside, n.buildClient} {
		if err := step(); err != nil {
			n.Close()
			return nil, err
		}
	}
	return n, nil
}

// Close lets go of the namespaces.
func (n *Network) Close() {
	for _, ns := range []*Namespace{n.Control, n.Outside, n.Client} {
		if ns != nil {
			ns.Close()
		}
	}
}

func (n *Network) buildControl() error {
	return n.Control.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = bridgeName
		attrs.HardwareAddr = spec.MAC(netip.MustParseAddr(spec.APIServerAddress)) // else it changes with the first port
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return fmt.Errorf("network: make bridge (is the kernel's bridge module there?): %w", err)
		}
		if err := configure(bridgeName, spec.APIServerAddress+"/24"); err != nil {
			return err
		}
		if err := route(spec.ClientNetwork, spec.OutsideAddress); err != nil {
			return err
		}
		return forward()
	})
}

func (n *Network) buildOutside() error {
	if err := n.attach(n.Outside, "outside", netip.MustParseAddr(spec.OutsideAddress)); err != nil {
		return err
	}
	return n.Outside.Do(func() error {
		if err := pair("clients", n.Outside, "eth0", n.Client, spec.MAC(netip.MustParseAddr(spec.ClientAddress))); err != nil {
			return err
		}
		if err := configure("clients", spec.ClientGateway+"/24"); err != nil {
			return err
		}
		return forward()
	})
}

func (n *Network) buildClient() error {
	return n.Client.Do(func() error {
		if err := configure("eth0", spec.ClientAddress+"/24"); err != nil {
			return err
		}
		return route("0.0.0.0/0", spec.ClientGateway)
	})
}

// attach joins a namespace to the bridge as eth0 with an address; port is the bridge's end.
func (n *Network) attach(ns *Namespace, port string, address netip.Addr) error {
	err := n.Control.Do(func() error {
		if err := pair(port, n.Control, "eth0", ns, spec.MAC(address)); err != nil {
			return err
		}
		link, err := netlink.LinkByName(port)
		if err != nil {
			return fmt.Errorf("network: port %s: %w", port, err)
		}
		bridge, err := netlink.LinkByName(bridgeName)
		if err != nil {
			return fmt.Errorf("network: bridge: %w", err)
		}
		if err := netlink.LinkSetMaster(link, bridge); err != nil {
			return fmt.Errorf("network: port %s: %w", port, err)
		}
		return up(link)
	})
	if err != nil {
		return err
	}
	return ns.Do(func() error { return configure("eth0", address.String()+"/24") })
}

// AddNode makes a node's namespace, joined to the nodes' network under its address. A former one of the same node is
// cut off first: its namespace may live on for a moment and would answer for the same address.
func (n *Network) AddNode(node spec.Node) (*Namespace, error) {
	if err := n.RemoveNode(node); err != nil {
		return nil, err
	}
	ns, err := New()
	if err != nil {
		return nil, err
	}
	if err := n.attach(ns, node.Name, node.Address); err != nil {
		ns.Close()
		return nil, err
	}
	err = ns.Do(func() error {
		if err := route("0.0.0.0/0", spec.APIServerAddress); err != nil {
			return err
		}
		if err := route(spec.ClientNetwork, spec.OutsideAddress); err != nil {
			return err
		}
		return forward()
	})
	if err != nil {
		ns.Close()
		return nil, err
	}
	return ns, nil
}

// RemoveNode cuts a node off.
func (n *Network) RemoveNode(node spec.Node) error {
	return n.Control.Do(func() error {
		link, err := netlink.LinkByName(node.Name)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("network: find the port of %s: %w", node.Name, err)
		}
		if err := netlink.LinkDel(link); err != nil {
			return fmt.Errorf("network: cut off %s: %w", node.Name, err)
		}
		return nil
	})
}

// RoutePods sends a node's share of the pod network to that node, so that the API server reaches webhooks and
// extension servers in pods.
func (n *Network) RoutePods(podCIDR string, node spec.Node) error {
	return n.Control.Do(func() error { return route(podCIDR, node.Address.String()) })
}

func pair(name string, ns *Namespace, peer string, peerNS *Namespace, peerMAC []byte) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.Namespace = netlink.NsFd(ns.FD())
	v := &netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerNamespace: netlink.NsFd(peerNS.FD()), PeerHardwareAddr: peerMAC}
	if err := netlink.LinkAdd(v); err != nil {
		return fmt.Errorf("network: make veth %s (is the kernel's veth module there?): %w", name, err)
	}
	return nil
}

func configure(name, cidr string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("network: %s: %w", name, err)
	}
	address, err := netlink.ParseAddr(cidr)
	if err != nil {
		return fmt.Errorf("network: %s: %w", name, err)
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("network: %s: add address %s: %w", name, cidr, err)
	}
	return up(link)
}

func up(link netlink.Link) error {
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("network: %s: set up: %w", link.Attrs().Name, err)
	}
	return nil
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("network: lo: %w", err)
	}
	return up(lo)
}

func route(destination, gateway string) error {
	_, dst, err := net.ParseCIDR(destination)
	if err != nil {
		return fmt.Errorf("network: route: %w", err)
	}
	if err := netlink.RouteReplace(&netlink.Route{Dst: dst, Gw: net.ParseIP(gateway)}); err != nil {
		return fmt.Errorf("network: route %s via %s: %w", destination, gateway, err)
	}
	return nil
}

// forward makes a router of the namespace of the calling thread.
func forward() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("network: forward packets: %w", err)
	}
	return nil
}
