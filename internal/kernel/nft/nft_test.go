package nft

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func addr(s string) netip.Addr         { return netip.MustParseAddr(s) }
func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
func tuple(a string, proto uint8, port uint16) Key {
	return Key{}.Addr(addr(a)).Proto(proto).Port(port)
}

// sample is a table that uses every expression and every kind of set.
func sample() *Table {
	t := NewTable(IPv4, "pw-test")
	t.Comment = "made by a test"
	t.AddSet(
		&Set{Name: "services", Key: []Type{IPv4Addr, Proto, Service}, Data: []Type{Mark}, Elems: map[string]string{
			tuple("10.96.0.7", TCP, 80).String(): Key{}.Mark(3).String(),
			tuple("10.96.0.8", UDP, 53).String(): Key{}.Mark(2).String(),
		}},
		&Set{Name: "dispatch", Key: []Type{Mark}, Verdicts: true, Elems: map[string]string{
			Key{}.Mark(3).String(): "goto lb-3",
			Key{}.Mark(2).String(): "goto reject",
		}},
		&Set{Name: "masquerade", Key: []Type{Mark}, Verdicts: true, Elems: map[string]string{Key{}.Mark(2).String(): "goto masq"}},
		&Set{Name: "endpoints", Key: []Type{IPv4Addr, Proto, Service, Mark}, Data: []Type{IPv4Addr, Service}, Elems: map[string]string{}},
		&Set{Name: "sources", Key: []Type{IPv4Addr, Proto, Service, IPv4Addr}, Interval: true, Elems: map[string]string{
			tuple("10.1.1.1", TCP, 80).Addr(addr("192.0.2.0")).String() + tuple("10.1.1.1", TCP, 80).Addr(addr("192.0.2.255")).String(): "",
		}},
		&Set{Name: "pods", Key: []Type{IPv4Addr}, Interval: true, Elems: map[string]string{
			string(Key{}.Addr(addr("10.244.0.0")).Addr(addr("10.244.0.255"))):       "",
			string(Key{}.Addr(addr("10.244.1.0")).Addr(addr("10.244.1.127"))):       "",
			string(Key{}.Addr(addr("240.0.0.0")).Addr(addr("255.255.255.255"))):     "",
			string(Key{}.Addr(addr("172.16.0.5")).Addr(addr("172.16.0.5"))):         "",
			string(Key{}.Addr(addr("172.16.0.100")).Addr(addr("172.16.0.200"))):     "",
			string(Key{}.Addr(addr("0.0.0.0")).Addr(addr("0.255.255.255"))):         "",
			string(Key{}.Addr(addr("192.168.0.0")).Addr(addr("192.168.255.255"))):   "",
			string(Key{}.Addr(addr("198.51.100.7")).Addr(addr("198.51.100.7"))):     "",
			string(Key{}.Addr(addr("198.51.100.8")).Addr(addr("198.51.100.15"))):    "",
			string(Key{}.Addr(addr("203.0.113.16")).Addr(addr("203.0.113.31"))):     "",
			string(Key{}.Addr(addr("203.0.113.255")).Addr(addr("203.0.113.255"))):   "",
			string(Key{}.Addr(addr("100.64.0.0")).Addr(addr("100.127.255.255"))):    "",
			string(Key{}.Addr(addr("169.254.0.0")).Addr(addr("169.254.255.255"))):   "",
			string(Key{}.Addr(addr("198.18.0.0")).Addr(addr("198.19.255.255"))):     "",
			string(Key{}.Addr(addr("192.0.2.128")).Addr(addr("192.0.2.129"))):       "",
			string(Key{}.Addr(addr("10.255.255.255")).Addr(addr("10.255.255.255"))): "",
		}},
		&Set{Name: "affinity", Key: []Type{IPv4Addr, IPv4Addr, Proto, Service}, Data: []Type{IPv4Addr, Service}, Dynamic: true, Timeout: 3 * time.Hour, Size: 1 << 16},
		&Set{Name: "seen", Key: []Type{IPv4Addr, Proto, Service}, Elems: map[string]string{tuple("10.96.0.7", TCP, 80).String(): ""}},
		&Set{Name: "ports", Key: []Type{Service}, Data: []Type{Mark}, Elems: map[string]string{Key{}.Port(30080).String(): Key{}.Mark(7).String()}},
		&Set{Name: "devices", Key: []Type{IfName}, Elems: map[string]string{"eth0" + string(make([]byte, 12)): ""}},
	)
	for i := range 3 {
		t.Sets["endpoints"].Elems[tuple("10.96.0.7", TCP, 80).Mark(uint32(i)).String()] =
			Key{}.Addr(netip.AddrFrom4([4]byte{10, 244, 1, byte(i + 1)})).Port(8080).String()
	}
	load := []Expr{DstAddr(IPv4, 1), L4Proto(2), DstPort(3)}
	pick := []Expr{Numgen{Dst: 4, Mod: 3}, MapTo("endpoints", 1, 4)}
	dnat := NAT{Family: IPv4, AddrReg: 4, HasPort: true, PortReg: 5}
	t.AddChain(
		&Chain{Name: "prerouting", Base: &Base{Type: "nat", Hook: Prerouting, Priority: PriorityDstNAT}, Rules: []Rule{R(To("services"))}},
		&Chain{Name: "postrouting", Base: &Base{Type: "nat", Hook: Postrouting, Priority: PrioritySrcNAT}, Rules: []Rule{
			R(Translated(), FromLocal(), Masquerade{FullyRandom: true}),
			R(Translated(), Ct{Key: CtDstIP, Original: true, Dst: 1}, L4Proto(2), Ct{Key: CtProtoDst, Original: true, Dst: 3},
				MapTo("services", 1, 1), Number(1, 2, 1), VMap("masquerade", 1)),
			R(OIF("eth0", true), SrcIn(netip.MustParsePrefix("10.244.1.0/24")), DstAddr(IPv4, 0), NotInSet("pods", 0), Masquerade{}),
		}},
		&Chain{Name: "output", Base: &Base{Type: "nat", Hook: Output, Priority: PriorityDstNAT}, Rules: []Rule{R(To("services"))}},
		&Chain{Name: "masq", Rules: []Rule{R(Masquerade{FullyRandom: true})}},
		&Chain{Name: "forward", Base: &Base{Type: "filter", Hook: Forward, Priority: PriorityFilter, Drop: true}, Rules: []Rule{
			R(IsNew(), Meta{Key: MetaMark}, Bitwise{Mask: host32(0xffffbfff), Xor: host32(0x4000)}, MetaSet{Key: MetaMark}),
			{Exprs: []Expr{Counter{}, Verdict{Kind: Accept}}, Comment: "all else"},
		}},
		&Chain{Name: "services", Rules: []Rule{
			R(load, MapTo("services", 1, 1), Number(1, 2, 1), VMap("dispatch", 1)),
			R(ToLocal(), DstPort(0), MapTo("ports", 0, 0), Cmp{Op: Gte, Data: host32(7)}, Verdict{Kind: Jump, Chain: "reject"}),
			R(Immediate{Dst: 0, Data: host32(5)}, Verdict{Kind: Return}),
		}},
		&Chain{Name: "lb-3", Rules: []Rule{
			R(SrcAddr(IPv4, 0), load, MapTo("affinity", 0, 4), Dynset{Set: "affinity", Op: DynUpdate, Key: 0, Map: true, Data: 4, Timeout: time.Minute}, dnat),
			R(SrcAddr(IPv4, 0), load, MapTo("affinity", 0, 4), NotInSet("seen", 1), Dynset{Set: "affinity", Op: DynDelete, Key: 0, Map: true, Data: 4}),
			R(SrcAddr(IPv4, 0), load, pick, Dynset{Set: "affinity", Key: 0, Map: true, Data: 4}, dnat),
			R(Verdict{Kind: Drop}),
		}},
		&Chain{Name: "reject", Rules: RejectRules(IPv4)},
	)
	return t
}

func TestASampleTableIsValidAndItsRulesReadAsNftWritesThem(t *testing.T) {
	s := sample()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range []string{"postrouting", "services", "lb-3"} {
		for _, r := range s.Chains[c].Rules {
			got = append(got, r.Text(s))
		}
	}
	want := []string{
		"ct status & 0x20 != 0x0 fib saddr type local masquerade fully-random",
		"ct status & 0x20 != 0x0 meta mark set ct original ip daddr . meta l4proto . ct original proto-dst map @services meta mark set meta mark meta mark vmap @masquerade",
		`oifname != "eth0" ip saddr & 255.255.255.0 10.244.1.0 ip daddr != @pods masquerade`,
		"meta mark set ip daddr . meta l4proto . th dport map @services meta mark set meta mark meta mark vmap @dispatch",
		"fib daddr type local th dport map @ports >= 0x7 jump reject",
		"return",
		"ip saddr . ip daddr . meta l4proto . th dport map @affinity update @affinity { ip saddr . ip daddr . meta l4proto . th dport timeout 60s : ip saddr . ip daddr . meta l4proto . th dport map @affinity } dnat ip to ip saddr . ip daddr . meta l4proto . th dport map @affinity",
		"ip daddr . meta l4proto . th dport != @seen delete @affinity { ip saddr . ip daddr . meta l4proto . th dport }",
		"ip daddr . meta l4proto . th dport . numgen random mod 3 map @endpoints add @affinity { ip saddr . ip daddr . meta l4proto . th dport : ip daddr . meta l4proto . th dport . numgen random mod 3 map @endpoints } dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 3 map @endpoints",
		"drop",
	}
	want[6] = want[6][len("ip saddr . ip daddr . meta l4proto . th dport map @affinity "):]
	want[8] = want[8][len("ip daddr . meta l4proto . th dport . numgen random mod 3 map @endpoints "):]
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEvalFollowsAPacketThroughTheHooks(t *testing.T) {
	local := func(a netip.Addr) bool { return a == addr("192.168.1.1") }
	for _, c := range []struct {
		name string
		p    Packet
		want []Outcome
	}{
		{"a packet to a Service goes to each endpoint", Packet{Proto: TCP, Src: addrPort("10.244.1.9:999"), Dst: addrPort("10.96.0.7:80"), OIF: "eth0"},
			[]Outcome{
				{Dst: addrPort("10.244.1.1:8080"), DNAT: true, Remembered: true},
				{Dst: addrPort("10.244.1.2:8080"), DNAT: true, Remembered: true},
				{Dst: addrPort("10.244.1.3:8080"), DNAT: true, Remembered: true},
			}},
		{"UDP is rejected with ICMP", Packet{Proto: UDP, Src: addrPort("10.244.1.9:999"), Dst: addrPort("10.96.0.8:53")},
			[]Outcome{{Dst: addrPort("10.96.0.8:53"), Rejected: true, Reject: Reject{Code: PortUnreachable4}}}},
		{"a local port jumps", Packet{Proto: TCP, Src: addrPort("10.9.9.9:999"), Dst: addrPort("192.168.1.1:30080"), Local: local},
			[]Outcome{{Dst: addrPort("192.168.1.1:30080"), Rejected: true, Reject: Reject{TCPReset: true}}}},
		{"a host packet skips forward and is masqueraded for its source", Packet{Proto: TCP, FromHost: true, Src: addrPort("192.168.1.1:999"), Dst: addrPort("10.96.0.7:80"), Local: local},
			[]Outcome{
				{Dst: addrPort("10.244.1.1:8080"), DNAT: true, Remembered: true, Masquerade: true},
				{Dst: addrPort("10.244.1.2:8080"), DNAT: true, Remembered: true, Masquerade: true},
				{Dst: addrPort("10.244.1.3:8080"), DNAT: true, Remembered: true, Masquerade: true},
			}},
		{"a pod's packet that leaves by another device is masqueraded", Packet{Proto: TCP, Src: addrPort("10.244.1.9:9"), Dst: addrPort("1.1.1.1:80"), OIF: "eth1"},
			[]Outcome{{Dst: addrPort("1.1.1.1:80"), Masquerade: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Eval([]*Table{sample()}, c.p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i].Path = nil
				got[i].Mark = 0
				if i < len(c.want) {
					c.want[i].Src = c.p.Src
					if !c.want[i].Rejected {
						c.want[i].Verdict = Accept
					}
				}
			}
			if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
				t.Error(d)
			}
		})
	}
}

// apply runs Diff's operations and reads the table back.
func apply(t *testing.T, k Kernel, have, want *Table) {
	t.Helper()
	ctx := context.Background()
	if err := k.Apply(ctx, Diff(have, want)); err != nil {
		t.Fatal(err)
	}
	got, err := k.Read(ctx, IPv4, "pw-test")
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(want) {
		text := func(x *Table) string {
			if x == nil {
				return ""
			}
			return x.Text()
		}
		t.Fatalf("the kernel has something else (-want +got):\n%s", cmp.Diff(text(want), text(got)))
	}
}

// variants are tables that differ in every way that Diff knows.
func variants() []*Table {
	change := func(f func(*Table)) *Table {
		t := sample()
		f(t)
		return t
	}
	return []*Table{
		sample(),
		nil,
		change(func(t *Table) { t.Sets["endpoints"].Elems = map[string]string{} }),
		change(func(t *Table) {
			for k := range t.Sets["services"].Elems {
				t.Sets["services"].Elems[k] = Key{}.Mark(2).String()
			}
		}),
		change(func(t *Table) {
			s := t.Sets["services"]
			s.Data, s.Elems = []Type{Mark, Mark, Mark}, map[string]string{}
		}),
		change(func(t *Table) { t.Sets["dispatch"].Elems = nil; delete(t.Chains, "lb-3") }),
		change(func(t *Table) {
			t.Sets["pods"].Elems = map[string]string{string(Key{}.Addr(addr("10.0.0.0")).Addr(addr("10.255.255.255"))): ""}
		}),
		change(func(t *Table) { t.Chains["forward"].Base = nil; t.Chains["forward"].Rules = nil }),
		change(func(t *Table) { t.Chains["postrouting"].Rules = t.Chains["postrouting"].Rules[:1] }),
		change(func(t *Table) { t.Comment = "another" }),
		NewTable(IPv4, "pw-test"),
	}
}

func TestAnyTableBecomesAnyOtherOnTheFake(t *testing.T) { anyToAny(t, NewFake()) }

func anyToAny(t *testing.T, k Kernel) {
	vs := variants()
	var have *Table
	step := func(want *Table) {
		apply(t, k, have, want)
		have = want
	}
	for _, a := range vs {
		for _, b := range vs {
			step(a)
			step(b)
			if ops := Diff(have, b); len(ops) != 0 {
				t.Fatalf("nothing differs, but Diff returns %v", ops)
			}
		}
	}
}

func TestTheFakeRefusesWhatTheKernelRefuses(t *testing.T) { refusals(t, NewFake()) }

// refusals are batches that must fail and leave the table as it was.
func refusals(t *testing.T, k Kernel) {
	s := sample()
	apply(t, k, nil, s)
	services, key := s.Sets["services"], tuple("10.96.0.7", TCP, 80).String()
	for _, c := range []struct {
		name string
		op   Op
		want error
	}{
		{"a key with another value", Op{Kind: AddElems, Set: services, Elems: []Elem{{key, Key{}.Mark(9).String()}}}, ErrExist},
		{"deleting a key that is not there", Op{Kind: DelElems, Set: services, Elems: []Elem{{tuple("10.0.0.1", TCP, 1).String(), ""}}}, ErrNotExist},
		{"a chain that is there", Op{Kind: AddChain, Chain: s.Chains["lb-3"]}, ErrExist},
		{"deleting a chain that a map names", Op{Kind: DelChain, Chain: s.Chains["lb-3"]}, nil},
		{"a rule that names no set", Op{Kind: AddRules, Chain: s.Chains["lb-3"], Rules: []Rule{R(L4Proto(0), InSet("nowhere", 0))}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.op.Table = s
			extra := Op{Kind: AddElems, Table: s, Set: services, Elems: []Elem{{tuple("10.7.7.7", TCP, 7).String(), Key{}.Mark(3).String()}}}
			err := k.Apply(context.Background(), []Op{extra, c.op})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			got, err := k.Read(context.Background(), IPv4, "pw-test")
			if err != nil || !got.Equal(s) {
				t.Fatalf("a refused batch left something behind: %v", err)
			}
		})
	}
}
