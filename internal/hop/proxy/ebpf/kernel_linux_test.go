package ebpf

import (
	"path/filepath"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	"github.com/podway/podway/internal/kernel/bpf"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/nettest"
)

// newWorld makes a world whose nodes have control groups.
func newWorld(t testing.TB) *nettest.World {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.NFT, nettest.EBPF)
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.UseCgroups(); err != nil {
		t.Fatal(err)
	}
	return w
}

func newNode(t testing.TB) *nettest.Host {
	n, err := newWorld(t).AddNode("node-a", 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func configOf(n *nettest.Host) bpf.Config {
	return bpf.Config{Object: object, Programs: programs, Dir: filepath.Join(n.BPF(), dirName), Cgroup: n.Cgroup()}
}

func newKernelHost(t *testing.T, c proxy.Config) hoptest.Host {
	n := newNode(t)
	rules, err := knft.Open(n.NS())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rules.Close() })
	return hostOf(c, func() (bpf.Kernel, error) { return bpf.Open(configOf(n)) }, rules)
}

func TestTheSuiteOnTheKernel(t *testing.T) {
	real := mode
	real.Host = newKernelHost
	s := real.Subject(proxytest.Default())
	s.Steps, s.Every = 30, 61
	hoptest.Run(t, s)
}
