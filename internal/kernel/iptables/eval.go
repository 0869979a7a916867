package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Packet is the first packet of a connection as it arrives at a host, or leaves a process of it.
type Packet struct {
	Proto    string // tcp, udp, sctp
	Src, Dst netip.AddrPort
	FromHost bool   // sent by a process of the host: OUTPUT instead of PREROUTING
	IIF      string // the device it came in by, when rules ask for it
	// Local says whether an address is the host's own, as the routing table says it.
	Local func(netip.Addr) bool
}

// Outcome is one thing that may happen to a packet; there are several when a rule draws a random number or asks whether
// the sender is remembered.
type Outcome struct {
	Verdict    string // ACCEPT, DROP or REJECT
	Dst        netip.AddrPort
	DNAT       bool
	Masquerade bool
	Mark       uint32
	Remembered bool   // the sender was put on a list
	Why        string // the rule that translated, rejected or dropped
}

// Rules returns the rules of a chain, nothing when there is no such chain.
type Rules func(table, chain string) ([]Rule, error)

const (
	maxOutcomes = 1 << 16
	maxDepth    = 32 // of jumps
)

// Eval walks a packet through the tables nat and filter as the kernel's hooks call them, and returns all outcomes. Rules
// that do not jump to the chains given, and the policies of the kernel's own chains, are not part of it.
func Eval(rules Rules, p Packet) ([]Outcome, error) {
	var out []Outcome
	var draws draws
	for len(out) < maxOutcomes {
		w := walk{rules: rules, p: p, draws: &draws, out: Outcome{Verdict: "ACCEPT", Dst: p.Dst}}
		if err := w.run(); err != nil {
			return nil, err
		}
		out = append(out, w.out)
		if !draws.next() {
			return out, nil
		}
	}
	return nil, fmt.Errorf("iptables: eval: more than %d outcomes", maxOutcomes)
}

// draws enumerates all sequences of yes and no, yes first, the last one fastest.
type draws struct {
	picked []bool
	at     int
}

func (d *draws) draw() bool {
	if d.at == len(d.picked) {
		d.picked = append(d.picked, true)
	}
	d.at++
	return d.picked[d.at-1]
}

func (d *draws) next() bool {
	d.picked, d.at = d.picked[:d.at], 0
	for n := len(d.picked); n > 0; n = len(d.picked) {
		if d.picked[n-1] {
			d.picked[n-1] = false
			return true
		}
		d.picked = d.picked[:n-1]
	}
	return false
}

// walk is one packet on its way.
type walk struct {
	rules Rules
	p     Packet
	draws *draws
	out   Outcome
}

func (w *walk) run() error {
	hooks := []string{"nat PREROUTING", "filter FORWARD", "nat POSTROUTING"}
	if w.p.FromHost {
		hooks = []string{"nat OUTPUT", "filter OUTPUT", "nat POSTROUTING", "filter INPUT"}
	}
	for i, h := range hooks {
		here := w.p.Local(w.out.Dst.Addr())
		switch {
		case i == 1 && here && !w.p.FromHost:
			h = "filter INPUT"
		case i == 2 && here && !w.p.FromHost, i == 3 && !here:
			return nil // delivered to the host, or gone
		}
		table, chain, _ := strings.Cut(h, " ")
		if _, err := w.chain(table, chain, 0); err != nil {
			return err
		}
		if w.out.Verdict != "ACCEPT" {
			return nil
		}
	}
	return nil
}

// chain runs the rules of a chain. It reports whether the packet's way through the hook is over.
func (w *walk) chain(table, name string, depth int) (over bool, err error) {
	if depth > maxDepth {
		return true, fmt.Errorf("iptables: eval: chain %s: too many jumps", name)
	}
	rs, err := w.rules(table, name)
	if err != nil {
		return true, err
	}
	for i := range rs {
		r := &rs[i]
		if !w.matches(r) {
			continue
		}
		if r.Target == "RETURN" {
			return false, nil
		}
		over, err := w.act(table, r, depth)
		if over || err != nil || r.Goto {
			return over, err
		}
	}
	return false, nil
}

func (w *walk) act(table string, r *Rule, depth int) (over bool, err error) {
	switch r.Target {
	case "":
	case "ACCEPT":
		return true, nil
	case "DROP", "REJECT":
		w.out.Verdict, w.out.Why = r.Target, r.Text
		return true, nil
	case "MARK":
		w.out.Mark = w.out.Mark&^r.MarkMask ^ r.Mark
	case "DNAT":
		w.out.Dst, w.out.DNAT, w.out.Why = r.To, true, r.Text
		return true, nil
	case "MASQUERADE":
		w.out.Masquerade = true
		return true, nil
	default:
		return w.chain(table, r.Target, depth+1)
	}
	return false, nil
}

// matches tests the conditions in their order, since one that remembers the sender does so when those before it hold.
func (w *walk) matches(r *Rule) bool {
	for i := range r.conds {
		c := &r.conds[i]
		if c.kind == record {
			w.out.Remembered = true
			continue
		}
		if w.holds(c) == c.not {
			return false
		}
	}
	return true
}

func (w *walk) holds(c *cond) bool {
	switch c.kind {
	case source:
		return c.pref.Contains(w.p.Src.Addr())
	case destination:
		return c.pref.Contains(w.out.Dst.Addr())
	case inDevice:
		return deviceIs(c.name, w.p.IIF)
	case protocol:
		return c.name == w.p.Proto
	case sourcePort:
		return c.low <= w.p.Src.Port() && w.p.Src.Port() <= c.high
	case destinationPort:
		return c.low <= w.out.Dst.Port() && w.out.Dst.Port() <= c.high
	case marked:
		return w.out.Mark&c.mask == c.mark
	case state:
		return slices.ContainsFunc(strings.Split(c.name, ","), w.inState)
	case sourceType:
		return c.name == "LOCAL" && w.p.Local(w.p.Src.Addr())
	case destinationType:
		return c.name == "LOCAL" && w.p.Local(w.out.Dst.Addr())
	case random, recall:
		return w.draws.draw()
	}
	return false
}

// inState reports whether the connection is in a state of conntrack: it is new, and perhaps translated.
func (w *walk) inState(s string) bool { return s == "NEW" || s == "DNAT" && w.out.DNAT }

// deviceIs compares a device with a name, which may end in + for any that begin so.
func deviceIs(name, device string) bool {
	if prefix, ok := strings.CutSuffix(name, "+"); ok {
		return device != "" && strings.HasPrefix(device, prefix)
	}
	return name == device
}
