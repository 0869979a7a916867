package iptables

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/nettest"
)

// open opens the tables of a namespace of its own, and another door to the same.
func open(t *testing.T, v Variant) *Exec {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.Netns, map[Variant]nettest.Thing{NFT: nettest.IPTables, Legacy: nettest.IPTablesLegacy}[v])
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	e, err := Open(ns, v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// everything is one rule of each kind that this package knows, as the tools print it.
const everything = `*nat
:OWN-A - [0:0]
:OWN-B - [0:0]
:OWN-D - [0:0]
:FOREIGN - [0:0]
-A OWN-A -d 10.96.0.7/32 -p tcp -m comment --comment "shop/cart:http cluster IP" -m tcp --dport 80 -j OWN-B
-A OWN-A ! -s 10.244.1.0/24 -d 10.96.0.7/32 -p udp -m comment --comment word -m udp --dport 53 -g OWN-B
-A OWN-A ! -s 10.240.0.0/13 -p sctp -m sctp --dport 80 -j OWN-B
-A OWN-A -s 10.244.1.128/25 -i cni0 -j OWN-B
-A OWN-A ! -d 127.0.0.0/8 ! -i veth+ -m addrtype --dst-type LOCAL -j OWN-B
-A OWN-A -m addrtype --src-type LOCAL -j RETURN
-A OWN-A -m comment --comment "no target"
-A OWN-A -m statistic --mode random --probability 0.33333333349 -j OWN-B
-A OWN-A -m recent --rcheck --seconds 10800 --reap --name LIST --mask 255.255.255.255 --rsource -j OWN-B
-A OWN-A -m mark ! --mark 0x4000/0x4000 -j RETURN
-A OWN-A -m mark --mark 0x1 -j MARK --set-xmark 0x4000/0x0
-A OWN-B -j MARK --set-xmark 0x4000/0x4000
-A OWN-D -j MASQUERADE --random-fully
-A OWN-B -p tcp -m comment --comment "a b" -m recent --set --name LIST --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.1.5:8080
-A OWN-B -p udp -m udp -j DNAT --to-destination 10.244.1.5:53
-A OWN-B -p sctp -m sctp -j DNAT --to-destination 10.244.1.5:53
-A FOREIGN -p tcp -m limit --limit 3/sec -j OWN-A
-A PREROUTING -m conntrack --ctstate NEW -m comment --comment "ours to mend" -j OWN-A
-A PREROUTING -m limit --limit 3/sec -j RETURN
-A PREROUTING -p tcp -j FOREIGN
COMMIT
*filter
:OWN-C - [0:0]
-A OWN-C -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A OWN-C -m conntrack --ctstate INVALID,NEW,UNTRACKED,SNAT -j ACCEPT
-A OWN-C -j REJECT --reject-with icmp-port-unreachable
COMMIT
`

const everything6 = `*nat
:OWN-A - [0:0]
:OWN-B - [0:0]
-A OWN-A ! -s fd00:10:1::/64 -d fd00:96::7/128 -p tcp -m comment --comment "shop/cart:http cluster IP" -m tcp --dport 80 -j OWN-B
-A OWN-A -s fd00:10:8000::/33 -j OWN-B
-A OWN-A ! -d ::1/128 -m addrtype --dst-type LOCAL -j OWN-B
-A OWN-A -m recent --rcheck --seconds 9 --reap --name LIST --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource -j OWN-B
-A OWN-B -j MASQUERADE --random-fully
-A OWN-B -p tcp -m recent --set --name LIST --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource -m tcp -j DNAT --to-destination [fd00:10:1::5]:8080
COMMIT
*filter
:OWN-C - [0:0]
-A OWN-C -m conntrack --ctstate NEW -j REJECT --reject-with icmp6-port-unreachable
COMMIT
`

func own(chain string) bool { return strings.HasPrefix(chain, "OWN-") }

// lines are the rules of the input that are to be read back: those of our chains, and the jump to them.
func lines(input, table string) map[string]string {
	out, in := map[string]string{}, ""
	for _, l := range strings.SplitAfter(input, "\n") {
		switch chain := chainOf(l); {
		case strings.HasPrefix(l, "*"):
			in = strings.TrimSpace(l[1:])
		case in == table && strings.HasPrefix(l, ":OWN"):
			name, _, _ := strings.Cut(l[1:], " ")
			out[name] = ""
		case in == table && (own(chain) || chain == "PREROUTING" && strings.Contains(l, "OWN")):
			out[chain] += l
		}
	}
	return out
}

func TestRulesAreReadAsTheyWereWritten(t *testing.T) {
	ctx := t.Context()
	for _, v := range []Variant{NFT, Legacy} {
		e := open(t, v)
		for f, input := range map[Family]string{IPv4: everything, IPv6: everything6} {
			if err := e.Restore(ctx, f, []byte(input)); err != nil {
				t.Fatalf("%s: %v", v, err)
			}
			for _, table := range []string{NAT, Filter} {
				want := lines(input, table)
				got, err := e.Read(ctx, f, table, own)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got.Chains); d != "" {
					t.Errorf("%s %s %s:\n%s", v, f, table, d)
				}
				look := e.Look(ctx, f, own)
				for chain, rules := range want {
					if got, there, err := look(table, chain); err != nil || !there || got != rules {
						t.Errorf("%s %s %s %s: got %t %q (%v), want %q", v, f, table, chain, there, got, err, rules)
					}
				}
				if _, there, err := look(table, "OWN-NONE"); there || err != nil {
					t.Errorf("%s: a chain that is not there: %t, %v", v, there, err)
				}
			}
		}
	}
}

// The decoder and the tool must agree, or drift would be seen where there is none.
func TestTheKernelIsReadWithoutTheTool(t *testing.T) {
	e := open(t, NFT)
	for f, input := range map[Family]string{IPv4: everything, IPv6: everything6} {
		if err := e.Restore(t.Context(), f, []byte(input)); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{NAT, Filter} {
			got, err := e.readChains(t.Context(), f, table, own)
			if err != nil {
				t.Fatalf("%s %s: %v", f, table, err)
			}
			text, err := e.save(t.Context(), f, table)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(Parse(f, table, text, own).Chains, got.Chains); d != "" {
				t.Errorf("%s %s, tool - kernel +:\n%s", f, table, d)
			}
		}
	}
}

func TestWhatIsNotKnownIsAskedOfTheTool(t *testing.T) {
	e := open(t, NFT)
	const odd = "*nat\n:OWN-A - [0:0]\n-A OWN-A -p tcp -m limit --limit 3/sec -j RETURN\nCOMMIT\n"
	if err := e.Restore(t.Context(), IPv4, []byte(odd)); err != nil {
		t.Fatal(err)
	}
	got, err := e.Read(t.Context(), IPv4, NAT, own)
	if err != nil || !strings.Contains(got.Chains["OWN-A"], "-m limit --limit 3/sec") {
		t.Errorf("got %v, %v", got, err)
	}
	rules, there, err := e.Look(t.Context(), IPv4, own)(NAT, "OWN-A")
	if err != nil || !there || !strings.Contains(rules, "-m limit") {
		t.Errorf("got %q, %t, %v", rules, there, err)
	}
}

func TestAnEmptyHostHasNoChains(t *testing.T) {
	for _, v := range []Variant{NFT, Legacy} {
		e := open(t, v)
		for _, f := range Families {
			got, err := e.Read(t.Context(), f, NAT, own)
			if err != nil || len(got.Chains) != 0 {
				t.Errorf("%s %s: %v, %v", v, f, got, err)
			}
			if _, there, err := e.Look(t.Context(), f, own)(NAT, "OWN-A"); there || err != nil {
				t.Errorf("%s %s: %t, %v", v, f, there, err)
			}
		}
		if v == Legacy && e.loaded(IPv4, NAT) {
			t.Error("asking made the table")
		}
	}
}

func TestTheStampTellsWhetherAnybodyWrote(t *testing.T) {
	for _, v := range []Variant{NFT, Legacy} {
		e := open(t, v)
		ctx := context.Background()
		seen := []Stamp{}
		for _, in := range []string{
			"*nat\n:OWN-A - [0:0]\nCOMMIT\n", "*nat\n-A OWN-A -j RETURN\nCOMMIT\n", "*filter\n:OWN-C - [0:0]\nCOMMIT\n", "*nat\n-F OWN-A\nCOMMIT\n*nat\n-X OWN-A\nCOMMIT\n",
		} {
			if err := e.Restore(ctx, IPv4, []byte(in)); err != nil {
				t.Fatal(err)
			}
			one, err1 := e.Stamp(ctx)
			two, err2 := e.Stamp(ctx)
			if err1 != nil || err2 != nil || one != two || one == "" {
				t.Errorf("%s: %q, %v and %q, %v without a write between", v, one, err1, two, err2)
			}
			if slices.Contains(seen, one) {
				t.Errorf("%s: %q again after a write", v, one)
			}
			seen = append(seen, one)
		}
	}
}

func TestTheVariantIsTheOneThatOthersUse(t *testing.T) {
	for _, v := range []Variant{NFT, Legacy} {
		for name, in := range map[string]string{
			"hint":       "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n",
			"canary":     "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n",
			"more rules": "*filter\n-A INPUT -p tcp -j ACCEPT\nCOMMIT\n",
		} {
			e := open(t, v)
			if err := e.Restore(t.Context(), IPv4, []byte(in)); err != nil {
				t.Fatal(err)
			}
			got, err := Open(e.ns, "")
			if err != nil {
				t.Fatal(err)
			}
			if got.Variant() != v {
				t.Errorf("%s by %s: got %s", v, name, got.Variant())
			}
			got.Close()
		}
	}
	e := open(t, NFT)
	got, err := Open(e.ns, "")
	if err != nil || got.Variant() != NFT {
		t.Errorf("on an empty host: %v, %v", got, err)
	}
}

func TestAToolsComplaintNamesTheLine(t *testing.T) {
	for _, v := range []Variant{NFT, Legacy} {
		e := open(t, v)
		err := e.Restore(t.Context(), IPv4, []byte("*nat\n:OWN-A - [0:0]\n-A OWN-A -j NO-SUCH-CHAIN\nCOMMIT\n"))
		if err == nil || !strings.Contains(err.Error(), "NO-SUCH-CHAIN") {
			t.Errorf("%s: got %v", v, err)
		}
	}
}

func TestTheFakeKeepsTheSameRules(t *testing.T) {
	fake := NewFake()
	if err := fake.Restore(t.Context(), IPv4, []byte(strings.ReplaceAll(everything, "-m limit --limit 3/sec ", ""))); err != nil {
		t.Fatal(err)
	}
	got, err := fake.Read(t.Context(), IPv4, NAT, own)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(lines(everything, NAT), maps.Clone(got.Chains)); d != "" {
		t.Error(d)
	}
}
