package podnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// NodeConfig is what the CNI plugin must know of its node, so that it never asks the API server.
type NodeConfig struct {
	Node     string         `json:"node"`
	PodCIDRs []netip.Prefix `json:"podCIDRs"`
	Gateways []netip.Addr   `json:"gateways"` // of each range, in the same order
	MTU      int            `json:"mtu"`      // of the Pods' devices
}

// ErrNoConfig says that the node agent has not written the NodeConfig yet.
var ErrNoConfig = errors.New("podway-node has not written it yet; see whether it runs on this node and reaches the API server")

// ReadNodeConfig reads the file that the node agent writes; ErrNoConfig when there is none.
func ReadNodeConfig(path string) (NodeConfig, error) {
	var c NodeConfig
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("podnet: no node configuration at %s: %w", path, ErrNoConfig)
	}
	if err != nil {
		return c, fmt.Errorf("podnet: read node configuration: %w", err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("podnet: read node configuration %s: %w", path, err)
	}
	if len(c.PodCIDRs) == 0 || len(c.PodCIDRs) != len(c.Gateways) || c.MTU <= 0 {
		return c, fmt.Errorf("podnet: node configuration %s is not complete", path)
	}
	return c, nil
}

func (c NodeConfig) equal(o NodeConfig) bool {
	return c.Node == o.Node && c.MTU == o.MTU && slices.Equal(c.PodCIDRs, o.PodCIDRs) && slices.Equal(c.Gateways, o.Gateways)
}

// write puts the file in its place in one step: a reader sees the old one or the new one.
func (c NodeConfig) write(path string) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("podnet: write node configuration: %w", err)
	}
	return writeFile(path, append(b, '\n'), 0o644)
}

// writeFile replaces a file in one step.
func writeFile(path string, content []byte, mode os.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("podnet: make folder: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("podnet: write %s: %w", path, err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("podnet: write %s: %w", path, err)
	}
	return nil
}
