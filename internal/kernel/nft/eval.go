package nft

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Packet is the first packet of a connection as it arrives at a host, or leaves a process of it.
type Packet struct {
	Proto    uint8
	Src, Dst netip.AddrPort // port 0 for a protocol without ports
	FromHost bool           // sent by a process of the host: output instead of prerouting
	IIF, OIF string         // the devices, when rules ask for them
	Mark     uint32
	// First is where the connection's first packet was sent by its client, when something that is no rule (IPVS) has
	// changed it already; zero = Dst.
	First netip.AddrPort
	// Local says whether an address is the host's own, as the routing table says it.
	Local func(netip.Addr) bool
}

// Outcome is one thing that may happen to a packet; there are several when a rule draws a random number.
type Outcome struct {
	Verdict    VerdictKind // Accept or Drop
	Rejected   bool        // dropped with an answer
	Reject     Reject      // the answer
	Src, Dst   netip.AddrPort
	DNAT       bool
	Masquerade bool
	Mark       uint32
	Remembered bool     // a dynamic set took the sender
	Path       []string // "chain: rule" of each rule that matched, for people
}

// maxOutcomes bounds the outcomes of one packet.
const maxOutcomes = 1 << 16

// Eval walks a packet through the tables and returns all outcomes, in the order of the random numbers. Dynamic sets count
// as empty. An expression that is not known is an error: a guess would be worse.
func Eval(tables []*Table, p Packet) ([]Outcome, error) {
	var out []Outcome
	var draws draws
	for len(out) < maxOutcomes {
		m := &machine{tables: tables, p: p, draws: &draws, oif: p.OIF}
		m.out = Outcome{Src: p.Src, Dst: p.Dst, Mark: p.Mark}
		if err := m.run(); err != nil {
			return nil, err
		}
		out = append(out, m.out)
		if !draws.next() {
			return out, nil
		}
	}
	return nil, fmt.Errorf("nft: eval: more than %d outcomes", maxOutcomes)
}

// draws enumerates all sequences of random numbers, last one fastest.
type draws struct {
	picked []uint32
	mods   []uint32
	at     int
}

func (d *draws) draw(mod uint32) uint32 {
	if d.at == len(d.picked) {
		d.picked, d.mods = append(d.picked, 0), append(d.mods, mod)
	}
	d.at++
	return d.picked[d.at-1]
}

func (d *draws) next() bool {
	d.at = 0
	for n := len(d.picked); n > 0; n-- {
		if d.picked[n-1]++; d.picked[n-1] < d.mods[n-1] {
			return true
		}
		d.picked, d.mods = d.picked[:n-1], d.mods[:n-1]
	}
	return false
}

// machine carries one packet through the hooks.
type machine struct {
	tables []*Table
	p      Packet
	draws  *draws
	out    Outcome
	hook   Hook
	oif    string
	table  *Table
	regs   [64]byte
	sealed bool // this hook's nat chains are done: a translation was set
	depth  int
}

// run passes the hooks in the order of the packet's way.
func (m *machine) run() error {
	way := []Hook{Prerouting}
	if m.p.FromHost {
		way[0] = Output
	}
	if err := m.at(way[0]); err != nil || m.out.Verdict == Drop {
		return err
	}
	local := m.p.Local != nil && m.p.Local(m.out.Dst.Addr())
	switch {
	case m.p.FromHost:
		way = []Hook{Postrouting}
	case local:
		way = []Hook{Input}
	default:
		way = []Hook{Forward, Postrouting}
	}
	for _, h := range way {
		if err := m.at(h); err != nil || m.out.Verdict == Drop {
			return err
		}
	}
	return nil
}

type hooked struct {
	t *Table
	c *Chain
}

// at runs the base chains of one hook in order of priority.
func (m *machine) at(h Hook) error {
	var chains []hooked
	for _, t := range m.tables {
		if t.Family != Inet && (t.Family == IPv4) != m.p.Dst.Addr().Is4() {
			continue
		}
		for _, name := range sorted(t.Chains) {
			if c := t.Chains[name]; c.Base != nil && c.Base.Hook == h {
				chains = append(chains, hooked{t, c})
			}
		}
	}
	slices.SortStableFunc(chains, func(a, b hooked) int { return cmp.Compare(a.c.Base.Priority, b.c.Base.Priority) })
	m.hook, m.sealed, m.out.Verdict = h, false, Accept
	for _, x := range chains {
		if m.sealed && x.c.Base.Type == "nat" {
			continue
		}
		if err := m.base(x); err != nil || m.out.Verdict == Drop {
			return err
		}
	}
	return nil
}

func (m *machine) base(x hooked) error {
	m.table, m.depth, m.regs = x.t, 0, [64]byte{}
	v, err := m.chain(x.c)
	if err != nil {
		return err
	}
	m.out.Verdict = Accept
	if v == Drop || v == Return && x.c.Base.Drop {
		m.out.Verdict = Drop
	}
	return nil
}

// chain runs the rules until one decides; Return means that none did.
func (m *machine) chain(c *Chain) (VerdictKind, error) {
	if m.depth++; m.depth > 16 {
		return Drop, fmt.Errorf("nft: eval: chain %s: more than 16 chains deep", c.Name)
	}
	defer func() { m.depth-- }()
	for i := range c.Rules {
		v, matched, err := m.rule(&c.Rules[i])
		if err != nil {
			return Drop, fmt.Errorf("nft: eval: chain %s rule %d: %w", c.Name, i+1, err)
		}
		if matched {
			m.out.Path = append(m.out.Path, c.Name+": "+c.Rules[i].Text(m.table))
		}
		if v == nil {
			continue
		}
		if v.Kind != Jump && v.Kind != Goto {
			return v.Kind, nil
		}
		next := m.table.Chains[v.Chain]
		if next == nil {
			return Drop, fmt.Errorf("nft: eval: chain %s: no chain %s", c.Name, v.Chain)
		}
		k, err := m.chain(next)
		if err != nil || k != Return || v.Kind == Goto {
			return k, err
		}
	}
	return Return, nil
}

// rule runs the expressions. It returns the verdict, if the rule has one, and whether the rule matched to its end.
func (m *machine) rule(r *Rule) (*Verdict, bool, error) {
	for _, e := range r.Exprs {
		v, goOn, err := m.expr(e)
		if err != nil {
			return nil, false, err
		}
		if v != nil || !goOn {
			return v, v != nil, nil
		}
	}
	return nil, true, nil
}
