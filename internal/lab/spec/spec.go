// Package spec says what a one-machine cluster is: its names, addresses, folders and sizes. It is plain data with the
// paths derived from it, known to every other package of the lab. It starts nothing and touches no file but its own
// description, DIR/cluster.json.
package spec

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// The addresses of every lab. Each lab has network namespaces of its own, so that several use the same ones at a time.
const (
	APIServerAddress = "10.90.0.1" // the control plane, on the nodes' network
	APIServerPort    = 6443
	NodeNetwork      = "10.90.0.0/24"
	OutsideAddress   = "10.90.0.100" // a host on the nodes' network that is no node, and the router of ClientNetwork
	ClientNetwork    = "203.0.113.0/24"
	ClientGateway    = "203.0.113.1"
	ClientAddress    = "203.0.113.9"
	PodNetwork       = "10.244.0.0/16"
	PodMaskSize      = 24 // of a node's share of PodNetwork
	ServiceNetwork   = "10.96.0.0/16"
	KubernetesIP     = "10.96.0.1" // ClusterIP of the kubernetes Service
	ClusterDNS       = "10.96.0.10"
	ClusterDomain    = "cluster.local"
	MaxNodes         = 80 // node-1 is 10.90.0.11, node-80 10.90.0.90
)

// Networking values: who makes the pod network and the Services.
const (
	NetworkingPodway = "podway"
	NetworkingNone   = "none" // nobody: bring your own CNI plugin
)

// Cluster describes one lab. It is written to DIR/cluster.json by `up` and read by everything else.
type Cluster struct {
	Dir         string `json:"dir"`        // absolute; everything that is on disk lies under it
	Nodes       int    `json:"nodes"`      // how many
	Kubernetes  string `json:"kubernetes"` // absolute path of podway-lab
	Podway      string `json:"podway"`     // absolute path of podway
	Networking  string `json:"networking"`
	ProxyMode   string `json:"proxyMode,omitempty"`   // of podway's service proxy; empty = its default
	UpstreamDNS string `json:"upstreamDNS,omitempty"` // name server for names outside the cluster, or none
	Port        int    `json:"port"`                  // of the API server on the host's 127.0.0.1

	Runtime Runtime `json:"runtime"`
}

// Runtime is the container runtime that the host has, by absolute paths. Every node runs an instance of its own.
type Runtime struct {
	Containerd string `json:"containerd"`
	Ctr        string `json:"ctr"`
	Runc       string `json:"runc"`
	Major      int    `json:"major"` // of containerd's version
}

// Node is one machine of the cluster.
type Node struct {
	Name    string
	Address netip.Addr
	Dir     string // what of it lasts: its images, its kubelet's state, its logs
}

// Node returns the i-th node, counted from 1.
func (c Cluster) Node(i int) Node {
	name := fmt.Sprintf("node-%d", i)
	return Node{Name: name, Address: netip.AddrFrom4([4]byte{10, 90, 0, byte(10 + i)}), Dir: filepath.Join(c.Dir, "nodes", name)}
}

// AllNodes returns the nodes in order.
func (c Cluster) AllNodes() []Node {
	nodes := make([]Node, 0, c.Nodes)
	for i := range c.Nodes {
		nodes = append(nodes, c.Node(i+1))
	}
	return nodes
}

// MAC is stable for a node's address, so that a node that is made anew keeps its place in its neighbours' tables.
func MAC(a netip.Addr) []byte {
	b := a.As4()
	return []byte{0x02, 0x50, b[0], b[1], b[2], b[3]}
}

// Server is the API server's URL inside the lab.
func Server() string { return fmt.Sprintf("https://%s:%d", APIServerAddress, APIServerPort) }

// HostServer is the API server's URL on the host.
func (c Cluster) HostServer() string { return fmt.Sprintf("https://127.0.0.1:%d", c.Port) }

// CgroupName is the name of the cgroup that holds every process of the lab in this folder.
func CgroupName(dir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(dir)))
	return fmt.Sprintf("podway-lab-%x", sum[:4])
}

// ErrNotFound says that there is no lab in a folder.
var ErrNotFound = errors.New("no cluster here")

// Load reads DIR/cluster.json; ErrNotFound when there is none.
func Load(dir string) (Cluster, error) {
	var c Cluster
	b, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("lab: %s: %w", dir, ErrNotFound)
	}
	if err != nil {
		return c, fmt.Errorf("lab: read description: %w", err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("lab: read description %s: %w", filepath.Join(dir, "cluster.json"), err)
	}
	return c, nil
}

// Save writes DIR/cluster.json, whole or not at all: an `up` that is killed here must not leave half of it.
func (c Cluster) Save() error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("lab: write description: %w", err)
	}
	file := filepath.Join(c.Dir, "cluster.json")
	if err = os.WriteFile(file+".new", append(b, '\n'), 0o600); err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("lab: write description: %w", err)
	}
	return nil
}
