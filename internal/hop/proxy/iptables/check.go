package iptables

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

const (
	// costly is how long a comparison may take before it is rationed.
	costly = 50 * time.Millisecond
	// ration is how many times its own duration must pass before a costly comparison is made again.
	ration = 10
)

// Check implements proxy.Backend. The stamp tells whether anybody wrote since; only then everything is compared. Where
// that is costly and was done just before, it looks only whether somebody emptied the tables.
func (b *Backend) Check(ctx context.Context) (string, error) {
	if b.applied == nil {
		return "", nil
	}
	stamp, err := b.door.Stamp(ctx)
	if err != nil || stamp != "" && stamp == b.stamp {
		return "", err
	}
	if b.took > costly && time.Since(b.compared) < ration*b.took {
		drift, err := b.emptied(ctx)
		if drift != "" {
			b.applied = nil
		}
		return drift, err
	}
	start := time.Now()
	have, err := read(ctx, b.door, b.applied.Node)
	if err != nil {
		return "", err
	}
	drift := b.drift(have, Render(b.applied))
	b.compared, b.took = time.Now(), time.Since(start)
	if drift != "" {
		b.applied = nil
		return drift, nil
	}
	b.stamp = stamp
	return "", nil
}

// emptied looks for the canary and the jumps from the kernel's chains.
func (b *Backend) emptied(ctx context.Context) (string, error) {
	for i, f := range kipt.Families {
		if !b.door.Has(f) || !wanted(b.applied, f, b.totals[i].ports) {
			continue
		}
		look := b.door.Look(ctx, f, owned)
		for _, table := range tables {
			if _, there, err := look(table, canary); err != nil || !there {
				return fmt.Sprintf("%s table %s: chain %s is gone", f, table, canary), err
			}
		}
		for _, chain := range []string{"PREROUTING", "OUTPUT"} {
			rules, _, err := look(kipt.NAT, chain)
			if err != nil {
				return "", err
			}
			if !strings.Contains(rules, "-j "+services+"\n") {
				return fmt.Sprintf("%s table %s: chain %s does not jump to %s", f, kipt.NAT, chain, services), nil
			}
		}
	}
	return "", nil
}

// drift says in words what would have to be done to make have into want.
func (b *Backend) drift(have, want *Ruleset) string {
	var words []string
	for _, f := range kipt.Families {
		if !b.door.Has(f) {
			continue
		}
		for _, t := range tables {
			words = append(words, difference(have.table(f, t), want.table(f, t)).words(f)...)
		}
	}
	if len(words) > 5 {
		words = append(words[:5], fmt.Sprintf("and %d more", len(words)-5))
	}
	return strings.Join(words, "; ")
}

// words says what an edit would do, for people.
func (e *edit) words(f kipt.Family) []string {
	var out []string
	say := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("%s table %s: ", f, e.table)+fmt.Sprintf(format, args...))
	}
	for chain := range e.set {
		say("write chain %s", chain)
	}
	for _, l := range e.lines {
		say("-%c%s", l.op, strings.TrimSuffix(l.rule[2:], "\n"))
	}
	for _, chain := range e.gone {
		say("delete chain %s", chain)
	}
	slices.Sort(out)
	return out
}

// Supported implements proxy.Backend: it makes chains with every kind of rule, which nothing jumps to, and deletes them.
func (b *Backend) Supported(ctx context.Context) error {
	d, err := b.host()
	if err != nil {
		return err
	}
	for _, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		if err := d.Restore(ctx, f, probe(f)); err != nil {
			return err
		}
	}
	return nil
}

// probe is the input that makes and deletes one chain in each table.
func probe(f kipt.Family) []byte {
	chain := fmt.Sprintf("KUBE-SVC-PROBE%d", time.Now().UnixNano()%1e9)
	var p pen
	client, is4 := netip.MustParsePrefix("192.0.2.0/24"), f == kipt.IPv4
	if !is4 {
		client = netip.MustParsePrefix("2001:db8::/64")
	}
	to := netip.AddrPortFrom(client.Addr().Next(), 80)
	for _, proto := range []string{"tcp", "udp", "sctp"} {
		p.start(chain).not(true).from(client).host(to.Addr()).s(" -p " + proto).comment("a/b cluster IP").s(" -m " + proto + " --dport 80 -j MARK --set-xmark 0x4000/0x4000\n")
	}
	p.start(chain).recent("--rcheck --seconds 10 --reap", chain, is4).chance(3).jump("RETURN")
	p.start(chain).s(" -m addrtype --dst-type LOCAL").jump("MASQUERADE --random-fully")
	p.start(chain).s(" -m mark ! --mark 0x4000/0x4000 -p tcp").recent("--set", chain, is4).s(" -m tcp").dnat(to)
	nat := &edit{table: kipt.NAT, set: map[string]string{chain: p.take()}}
	p.start(chain).s(" -m conntrack --ctstate NEW").refuse(is4)
	p.start(chain).s(" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT").jump("DROP")
	filter := &edit{table: kipt.Filter, set: map[string]string{chain: p.take()}}
	end := []*edit{{table: kipt.NAT, gone: []string{chain}}, {table: kipt.Filter, gone: []string{chain}}}
	return script(append([]*edit{nat, filter}, end...), 0)
}

var _ proxy.Backend = (*Backend)(nil)
