package spec_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/lab/spec"
)

func TestNodesHaveNamesAndAddressesOfTheirOwn(t *testing.T) {
	network := netip.MustParsePrefix(spec.NodeNetwork)
	seen := map[netip.Addr]bool{netip.MustParseAddr(spec.APIServerAddress): true, netip.MustParseAddr(spec.OutsideAddress): true}
	nodes := spec.Cluster{Dir: "/lab", Nodes: spec.MaxNodes}.AllNodes()
	for _, n := range nodes {
		if seen[n.Address] || !network.Contains(n.Address) {
			t.Errorf("%s has address %s", n.Name, n.Address)
		}
		seen[n.Address] = true
	}
	if n := nodes[1]; n.Name != "node-2" || n.Address.String() != "10.90.0.12" || n.Dir != "/lab/nodes/node-2" {
		t.Errorf("the second node is %+v", n)
	}
}

func TestHardwareAddressesAreStableAndLocal(t *testing.T) {
	a, b := spec.MAC(netip.MustParseAddr("10.90.0.11")), spec.MAC(netip.MustParseAddr("10.90.0.12"))
	if cmp.Equal(a, b) || !cmp.Equal(a, spec.MAC(netip.MustParseAddr("10.90.0.11"))) {
		t.Errorf("%x, %x", a, b)
	}
	if a[0]&3 != 2 {
		t.Errorf("%x is not a local unicast address", a)
	}
}

func TestADescriptionComesBackAsItWasSaved(t *testing.T) {
	dir := t.TempDir()
	if _, err := spec.Load(dir); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("an empty folder: %v", err)
	}
	want := spec.Cluster{Dir: dir, Nodes: 3, Kubernetes: "/a", Podway: "/b", Networking: "none", UpstreamDNS: "192.0.2.1", Port: 1,
		Runtime: spec.Runtime{Containerd: "/c", Ctr: "/d", Runc: "/e", Major: 2}}
	if err := want.Save(); err != nil {
		t.Fatal(err)
	}
	got, err := spec.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Load(dir); err == nil || errors.Is(err, spec.ErrNotFound) {
		t.Errorf("half a file: %v", err)
	}
}

func TestEveryFolderHasACgroupOfItsOwn(t *testing.T) {
	if a, b := spec.CgroupName("/var/lib/a"), spec.CgroupName("/var/lib/b"); a == b || a != spec.CgroupName("/var/lib/a/") {
		t.Errorf("%s, %s", a, b)
	}
}
