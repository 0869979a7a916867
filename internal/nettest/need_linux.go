// Package nettest builds small clusters out of network namespaces: nodes on layer-2 segments, Pods behind their nodes,
// and an outside host that routes everything else, all without a name and gone with the process. It owns the wires, tiny
// servers that say who they are and clients that say what became of a connection. It owns no rule, no route to a Pod on
// another node and no decision: those are what is under test.
package nettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/ipvs"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/nft"
)

// Thing is something a test needs of the machine.
type Thing string

// The things a test can need.
const (
	Root   Thing = "root"
	Netns  Thing = "netns"
	NFT    Thing = "nft"
	VXLAN  Thing = "vxlan"
	Bridge Thing = "bridge"
	// The command iptables, by nf_tables and by the older tables.
	IPTables       Thing = "iptables-nft"
	IPTablesLegacy Thing = "iptables-legacy"
	EBPF           Thing = "ebpf" // control groups of version 2 and a BPF file system
	SCTP           Thing = "sctp"
	IPVS           Thing = "ipvs"
)

// T is what Need uses of testing.TB.
type T interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Need ends the test when the machine lacks one of the things (none named: root, netns and nft). The message names what
// is missing. In CI (environment CI=true) it is a failure, elsewhere a skip.
func Need(t T, things ...Thing) {
	t.Helper()
	err := Missing(things...)
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Missing says what the machine lacks of the things (none named: root, netns and nft), or nil.
func Missing(things ...Thing) error {
	if len(things) == 0 {
		things = []Thing{Root, Netns, NFT}
	}
	have := probe()
	var lacks []string
	for _, th := range things {
		if err, known := have[th]; err != nil || !known {
			lacks = append(lacks, fmt.Sprintf("%s (%v)", th, err))
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("nettest: this machine lacks %s: %w", strings.Join(lacks, ", "), errors.ErrUnsupported)
}

// probe tries each thing once per process.
var probe = sync.OnceValue(func() map[Thing]error {
	have := map[Thing]error{Root: nil}
	if os.Geteuid() != 0 {
		have[Root] = errors.New("run as root")
	}
	ns, err := netns.New()
	have[Netns] = err
	have[SCTP] = probeSCTP()
	rest := []Thing{NFT, VXLAN, Bridge, IPTables, IPTablesLegacy, EBPF, IPVS}
	if err != nil {
		for _, th := range rest {
			have[th] = errors.New("cannot be tried without network namespaces")
		}
		return have
	}
	defer ns.Close()
	have[NFT] = probeNFT(ns)
	have[VXLAN] = probeLink(ns, &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "probe"}, VxlanId: 1, Port: 8472})
	have[IPTables] = probeIPTables(ns, IPTables)
	have[IPTablesLegacy] = probeIPTables(ns, IPTablesLegacy)
	have[Bridge] = probeLink(ns, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "probe"}})
	have[EBPF] = probeEBPF()
	have[IPVS] = probeIPVS(ns)
	return have
})

func probeSCTP() error {
	fd, err := sctpSocket(unix.AF_INET)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func probeIPVS(ns *netns.NS) error {
	k, err := ipvs.Open(ns, "probe")
	if err != nil {
		return err
	}
	return k.Close()
}

func probeNFT(ns *netns.NS) error {
	k, err := nft.Open(ns)
	if err != nil {
		return err
	}
	defer k.Close()
	return k.Apply(context.Background(), nft.Create(nft.NewTable(nft.IPv4, "probe")))
}

func probeIPTables(ns *netns.NS, command Thing) error {
	var cmd *exec.Cmd
	if err := ns.Do(func() error {
		cmd = exec.Command(string(command), "-w", "5", "-t", "nat", "-S")
		return cmd.Start()
	}); err != nil {
		return err
	}
	return cmd.Wait()
}

func probeLink(ns *netns.NS, l netlink.Link) error {
	return ns.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		if err := h.LinkAdd(l); err != nil {
			return err
		}
		return h.LinkDel(l)
	})
}
