package nft

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest/packets"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/nettest/vm"
)

var tried = packets.Subject{New: func(ns *netns.NS) proxy.Backend { return In(ns) }}

func TestPacketsThroughTheRules(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	t.Parallel()
	packets.Run(t, tried)
}

// Every packet also passes the chains of other tables, which must be what they were afterwards.
func TestPacketsBesideFirewalldAndDocker(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	t.Parallel()
	s := tried
	s.Beside = func(l *packets.Lab) {
		_, err := run(l.A, "nft", "-f", "testdata/firewalld-docker.nft")
		l.OK(err)
		before, err := others(l.A)
		l.OK(err)
		l.T.Cleanup(func() {
			if after, err := others(l.A); err != nil || after != before {
				l.T.Errorf("the tables of others were\n%s\nand are now\n%s\n%v", before, after, err)
			}
		})
	}
	packets.Run(t, s)
}

// others are the tables of a host that are not podway's.
func others(h *nettest.Host) (string, error) {
	out, err := run(h, "nft", "list", "ruleset")
	var keep []string
	for _, table := range strings.Split("\n"+out, "\ntable ") {
		if table != "" && !strings.Contains(table[:strings.Index(table+"\n", "\n")], "podway-") {
			keep = append(keep, strings.TrimSpace(table))
		}
	}
	if len(keep) != 3 {
		return out, fmt.Errorf("%d tables of others, want 3", len(keep))
	}
	return strings.Join(keep, "\n"), err
}

func run(h *nettest.Host, argv ...string) (string, error) {
	p, err := h.Start(context.Background(), argv)
	if err != nil {
		return "", err
	}
	out, err := io.ReadAll(p.Stdout)
	if e := p.Stop(10 * time.Second); e != nil {
		err = fmt.Errorf("%v: %w: %s", argv, e, p.Stderr())
	}
	return string(out), err
}

// The kernel that tests run on may lack SCTP and netem.
func TestPacketsOfSCTPAndOnABadPath(t *testing.T) {
	t.Parallel()
	vm.Test(t, vm.Machine{Timeout: 5 * time.Minute}, func(t *testing.T) {
		s := tried
		s.Protos, s.Slow = packets.All, true
		t.Run("a bad path", func(t *testing.T) { packets.BadPath(t, s) })
		s.Elsewhere = []flow.Proto{flow.TCP, flow.UDP}
		t.Run("SCTP", func(t *testing.T) { packets.Run(t, s) })
	})
}
