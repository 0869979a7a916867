package iptables

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
)

// foreign are rules of other programs: in the kernel's chains and in chains of their own, also ones that look like ours.
const foreign = `*nat
:CNI-HOSTPORT-DNAT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-DNAT -p tcp -m limit --limit 3/sec -m tcp --dport 8080 -j DNAT --to-destination 10.244.1.9:80
-A POSTROUTING -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:DOCKER-USER - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -j DOCKER-USER
-A FORWARD -i docker0 -j ACCEPT
-A DOCKER-USER -j RETURN
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
`

func notOwned(chain string) bool { return !owned(chain) }

// rulesOfOthers are all rules of the host but ours.
func rulesOfOthers(t *testing.T, d kipt.Door) string {
	t.Helper()
	var b strings.Builder
	for _, table := range tables {
		got, err := d.Read(t.Context(), kipt.IPv4, table, notOwned)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString((&Ruleset{tables: []*kipt.Table{got}}).Text())
	}
	return withoutJumps(b.String())
}

// withoutJumps leaves out the rules in the kernel's chains that lead to ours.
func withoutJumps(text string) string {
	var out strings.Builder
	kipt.Lines(text, func(line string) {
		if r, err := kipt.ParseRule(line); err != nil || !owned(r.Target) {
			out.WriteString(line)
		}
	})
	return out.String()
}

func TestRulesOfOthersStay(t *testing.T) {
	for _, v := range variants {
		d := newDoor(t, v)
		if err := d.Restore(t.Context(), kipt.IPv4, []byte(foreign)); err != nil {
			t.Fatal(err)
		}
		before := rulesOfOthers(t, d)
		if !strings.Contains(before, "CNI-HOSTPORT-DNAT -p tcp") || !strings.Contains(before, "-A KUBE-FIREWALL") {
			t.Fatalf("the test does not see the rules of others:\n%s", before)
		}
		b := New(func() (kipt.Door, error) { return d, nil }, nil)
		for _, c := range hoptest.ServiceCases()[:14] {
			p := proxytest.Default().Decide(c.Snapshot)
			if _, err := b.Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if drift, err := b.Check(t.Context()); drift != "" || err != nil {
				t.Errorf("%s, %s: drift %q, %v", v, c.Name, drift, err)
			}
		}
		if d := cmp.Diff(before, rulesOfOthers(t, d)); d != "" {
			t.Errorf("%s: others' rules changed:\n%s", v, d)
		}
		if err := b.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(before, rulesOfOthers(t, d)); d != "" {
			t.Errorf("%s: others' rules changed by Remove:\n%s", v, d)
		}
		if r, err := read(t.Context(), d, proxy.Node{}); err != nil || r.Text() != "" {
			t.Errorf("%s: left %s, %v", v, r.Text(), err)
		}
	}
}

func TestSomebodyEmptyingTheTablesIsNoticedAndMended(t *testing.T) {
	for _, v := range variants {
		ns, d := newHost(t, v)
		b := New(func() (kipt.Door, error) { return d, nil }, nil)
		one, two := proxytest.Plans("10.244.2.7")
		for _, p := range []*proxy.Plan{one, two} {
			if _, err := b.Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if p == two && b.stamp == "" {
				t.Errorf("%s: our own write counts as somebody else's", v)
			}
			start := time.Now()
			if drift, err := b.Check(t.Context()); drift != "" || err != nil {
				t.Fatalf("%s: %q, %v", v, drift, err)
			}
			t.Logf("%s: a check when nobody wrote: %v", v, time.Since(start))
			for _, empty := range tables {
				if err := flush(ns, v, empty); err != nil {
					t.Fatal(err)
				}
				if drift, err := b.Check(t.Context()); drift == "" || err != nil {
					t.Errorf("%s: the empty table %s was not noticed, %v", v, empty, err)
				}
				if _, err := b.Apply(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				got, err := read(t.Context(), d, p.Node)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(Render(p).Text(), got.Text()); diff != "" {
					t.Errorf("%s after %s:\n%s", v, empty, diff)
				}
			}
		}
	}
}

// A kubelet that starts later may use the other variant of the tools: the next process follows it.
func TestRulesOfTheOtherVariantGo(t *testing.T) {
	for i, v := range variants {
		other := variants[1-i]
		needTools(t, other)
		ns, d := newHost(t, v)
		one, two := proxytest.Plans("10.244.2.7")
		if _, err := New(func() (kipt.Door, error) { return d, nil }, nil).Apply(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		now, err := kipt.Open(ns, other)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { now.Close() })
		if err := now.Restore(t.Context(), kipt.IPv4, []byte("*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n")); err != nil {
			t.Fatal(err)
		}
		if v == kipt.NFT { // the hint of variant nft is looked for first; it is not there
			if got, err := kipt.Open(ns, ""); err != nil || got.Variant() != other {
				t.Fatalf("the hint is not followed: %v, %v", got, err)
			}
		}
		b := In(ns)
		if _, err := b.Apply(t.Context(), two); err != nil {
			t.Fatal(err)
		}
		if left, err := read(t.Context(), d, proxy.Node{}); err != nil || left.Text() != "" {
			t.Errorf("%s after %s: left %s, %v", other, v, left.Text(), err)
		}
		if got, err := read(t.Context(), now, two.Node); err != nil || got.Text() != Render(two).Text() {
			t.Errorf("%s after %s: not as wanted, %v", other, v, err)
		}
	}
}

// flush empties a table as an administrator does.
func flush(ns *netns.NS, v kipt.Variant, table string) error {
	for _, what := range []string{"-F", "-X"} {
		var cmd *exec.Cmd
		if err := ns.Do(func() error {
			cmd = exec.Command("iptables-"+string(v), "-w", "5", "-t", table, what)
			return cmd.Start()
		}); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	return nil
}
