package network

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/lab/spec"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("network namespaces need root")
	}
	t.Skip("network namespaces need root")
}

func hostLinks(t *testing.T) []string {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return names
}

// answer serves, inside a namespace, the address of whoever connects.
func answer(t *testing.T, ns *Namespace, address string) {
	t.Helper()
	var l net.Listener
	err := ns.Do(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, c.RemoteAddr().(*net.TCPAddr).IP)
			_, _ = io.Copy(c, c) // and what it says
			c.Close()
		}
	}()
}

func ask(t *testing.T, ns *Namespace, address string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := ns.Dial(ctx, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func build(t *testing.T) (*Network, *Namespace, *Namespace) {
	t.Helper()
	needRoot(t)
	n, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	c := spec.Cluster{Nodes: 2}
	var nodes [2]*Namespace
	for i := range nodes {
		if nodes[i], err = n.AddNode(c.Node(i + 1)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nodes[i].Close() })
	}
	return n, nodes[0], nodes[1]
}

func TestEveryPartReachesTheNodesUnderItsOwnAddress(t *testing.T) {
	before := hostLinks(t)
	n, node1, node2 := build(t)
	answer(t, node1, "10.90.0.11:8080")
	answer(t, n.Client, spec.ClientAddress+":8080")
	answer(t, n.Control, spec.APIServerAddress+":6443")
	for name, tt := range map[string]struct {
		from     *Namespace
		to, want string
	}{
		"a node the other one":          {node2, "10.90.0.11:8080", "10.90.0.12"},
		"the control plane a node":      {n.Control, "10.90.0.11:8080", spec.APIServerAddress},
		"a node the control plane":      {node2, "10.90.0.1:6443", "10.90.0.12"},
		"outside a node":                {n.Outside, "10.90.0.11:8080", spec.OutsideAddress},
		"the client a node":             {n.Client, "10.90.0.11:8080", spec.ClientAddress},
		"a node the client":             {node1, "203.0.113.9:8080", "10.90.0.11"},
		"the client, the control plane": {n.Client, "10.90.0.1:6443", spec.ClientAddress},
		"a node itself":                 {node1, "10.90.0.11:8080", "10.90.0.11"},
	} {
		if got, err := ask(t, tt.from, tt.to); err != nil || got != tt.want {
			t.Errorf("%s: reached as %q, want %q: %v", name, got, tt.want, err)
		}
	}
	if after := hostLinks(t); !slices.Equal(before, after) {
		t.Errorf("the host's devices were %q, are %q", before, after)
	}
}

func TestANodeThatIsMadeAnewTakesThePlaceOfTheFormer(t *testing.T) {
	n, node1, node2 := build(t)
	answer(t, node1, "10.90.0.11:8080")
	if _, err := ask(t, node2, "10.90.0.11:8080"); err != nil {
		t.Fatal(err)
	}
	again, err := n.AddNode(spec.Cluster{Nodes: 2}.Node(1)) // while the former namespace still lives
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := ask(t, node2, "10.90.0.11:8080"); err == nil {
		t.Error("the former node answers")
	}
	answer(t, again, "10.90.0.11:8080")
	if _, err := ask(t, node2, "10.90.0.11:8080"); err != nil {
		t.Errorf("the new node does not answer: %v", err)
	}
}

func TestPodsAreRoutedToTheirNode(t *testing.T) {
	n, node1, _ := build(t)
	err := node1.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr("10.244.5.7/32")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(lo, a)
	})
	if err != nil {
		t.Fatal(err)
	}
	answer(t, node1, "10.244.5.7:9443")
	if err := n.RoutePods("10.244.5.0/24", spec.Cluster{Nodes: 2}.Node(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, n.Control, "10.244.5.7:9443"); err != nil {
		t.Error(err)
	}
}

func TestTheHostReachesTheControlPlaneThroughTheRelay(t *testing.T) {
	n, _, _ := build(t)
	answer(t, n.Control, "10.90.0.1:6443")
	l, port, err := Listen(26443)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	next, nextPort, err := Listen(port)
	if err != nil || nextPort <= port {
		t.Fatalf("a taken port %d leads to %d: %v", port, nextPort, err)
	}
	next.Close()
	go n.Control.Relay(l, "10.90.0.1:6443")
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "and back"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil { // the end of one direction goes through alone
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(c)
	if err != nil || string(b) != spec.APIServerAddress+"\nand back" {
		t.Errorf("got %q: %v", b, err)
	}
}

func TestARelayWithNobodyBehindClosesTheConnection(t *testing.T) {
	n, _, _ := build(t)
	l, port, err := Listen(26443)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go n.Control.Relay(l, "10.90.0.1:6443")
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if b, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") || len(b) > 0 {
		t.Errorf("got %q: %v", b, err)
	}
}
