package nft

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// newKernel opens the tables of a network namespace of its own.
func newKernel(t *testing.T) *knft.Conn {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.NFT)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	k, err := knft.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func TestTheSuiteOnTheKernel(t *testing.T) {
	t.Parallel()
	real := mode
	real.Host = func(t *testing.T, c proxy.Config) hoptest.Host { return hostOf(c, newKernel(t)) }
	s := real.Subject(proxytest.Default())
	s.Steps, s.Every = 150, 13
	hoptest.Run(t, s)
}

func TestTheKernelSupportsAllThatIsUsed(t *testing.T) {
	k := newKernel(t)
	b := New(func() (knft.Kernel, error) { return k, nil })
	if err := b.Supported(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := read(t.Context(), k, proxy.Node{}); err != nil || len(r.tables) != 0 {
		t.Errorf("trying left %d tables, %v", len(r.tables), err)
	}
}

// An nft command that aborts on this table would abort for all tables of the host.
func TestTheNftCommandListsEveryRule(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	path, err := exec.LookPath("nft")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no nft command: apt-get install nftables")
		}
		t.Skip("no nft command here; it is not needed for anything but this")
	}
	for _, c := range append(hoptest.ServiceCases(), hoptest.MaglevCases()...) {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		b := In(ns)
		if _, err := b.Apply(t.Context(), proxy.Decide(c.Snapshot, hoptest.NodeA)); err != nil {
			t.Fatal(err)
		}
		err = ns.Do(func() error {
			for _, args := range [][]string{{"list", "ruleset"}, {"-j", "list", "ruleset"}} {
				out, err := exec.Command(path, args...).CombinedOutput()
				if err != nil || strings.Contains(string(out), "Error") || strings.Contains(string(out), "invalid") {
					return fmt.Errorf("nft %v: %v\n%s", args, err, out)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		ns.Close()
	}
}

// With many elements a comparison of everything is made rarely, so the flush must be seen without one.
func TestAFlushedRulesetIsNoticedAtOnceAndMended(t *testing.T) {
	k := newKernel(t)
	b := New(func() (knft.Kernel, error) { return k, nil })
	plan := proxytest.Default().Decide(hoptest.ServiceCases()[5].Snapshot)
	if _, err := b.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	want, err := read(t.Context(), k, plan.Node)
	if err != nil {
		t.Fatal(err)
	}
	foreign := knft.Create(knft.NewTable(knft.IPv4, "somebody-else"))
	b.took, b.compared = time.Hour, time.Now()
	for _, c := range []struct {
		name  string
		ops   []knft.Op
		drift string
	}{
		{"another program's table", foreign, ""},
		{"our tables deleted", []knft.Op{{Kind: knft.DelTable, Table: want.tables[0]}, {Kind: knft.DelTable, Table: want.tables[1]}}, "ip podway-proxy: add table"},
		{"the rules flushed", []knft.Op{{Kind: knft.FlushChain, Table: want.tables[1], Chain: &knft.Chain{Name: prerouting}}}, "ip6 podway-proxy: add rules to chain prerouting"},
	} {
		if err := k.Apply(t.Context(), c.ops); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Check(t.Context()); err != nil || got != c.drift {
			t.Fatalf("%s: drift %q, %v, want %q", c.name, got, err, c.drift)
		}
		if _, err := b.Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t.Context(), k, plan.Node); err != nil || !got.Equal(want) {
			t.Errorf("%s: not mended: %v", c.name, err)
		}
	}
}

func TestAnAcknowledgedChangeIsInForce(t *testing.T) {
	k := newKernel(t)
	b := New(func() (knft.Kernel, error) { return k, nil })
	p := proxy.NewPlanner(hoptest.NodeA)
	c := hoptest.NewCluster().Put(hoptest.Service("cart", 7))
	var have *model.Snapshot
	var took []time.Duration
	for i := range 50 {
		next := c.Put(hoptest.Slice("cart", hoptest.Ready(fmt.Sprintf("10.244.2.%d", i+1)))).Snapshot()
		plan, _ := p.Update(next, model.Diff(have, next))
		have = next
		start := time.Now()
		if _, err := b.Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
		r, err := gather(t.Context(), plan.Node, k.Look)
		if err != nil {
			t.Fatal(err)
		}
		v := r.Eval(flow.Flow{From: flow.FromPod, Proto: flow.TCP, Src: netip.MustParseAddrPort("10.244.1.9:1"), Dst: netip.MustParseAddrPort("10.96.0.7:80")})
		if want := fmt.Sprintf("forward 10.244.2.%d:8080", i+1); v.String() != want {
			t.Fatalf("after the acknowledgement the kernel has %q, want %q", v, want)
		}
	}
	slices.Sort(took)
	t.Logf("acknowledged change: median %v, 90%% below %v", took[25], took[45])
}

func TestASetInTheKernelThatBecomesTooSmallIsMadeAnewWithMoreRoom(t *testing.T) {
	if full := grow(t, newKernel(t), 300, 20); full != 2 {
		t.Errorf("%d applies were full, want the first one and one for more room", full)
	}
}
