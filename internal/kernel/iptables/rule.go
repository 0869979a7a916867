package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Rule is one rule, read from the text of iptables-save.
type Rule struct {
	Chain  string
	Text   string // without the newline
	conds  []cond
	Target string // a chain, or ACCEPT, DROP, RETURN, REJECT, DNAT, MARK, MASQUERADE; "" = none

	Goto      bool
	To        netip.AddrPort // of DNAT
	Mark      uint32         // of MARK: the mark becomes mark &^ MarkMask ^ Mark
	MarkMask  uint32
	Forgotten bool // a match of the extension recent that takes the sender off its list
}

// cond is one condition of a rule: of the packet alone, or, of kinds random and recent, one that may or may not hold.
type cond struct {
	kind kind
	not  bool
	pref netip.Prefix
	name string // protocol, device, type of address, states
	low  uint16
	high uint16
	mark uint32
	mask uint32
}

type kind uint8

const (
	source kind = iota
	destination
	inDevice
	outDevice
	protocol
	sourcePort
	destinationPort
	marked
	state
	sourceType
	destinationType
	random // statistic: holds with a probability
	recall // recent: holds when the sender is on a list
	record // recent: puts the sender on a list, holds always
)

// ParseRule reads one line. An option that is not known is an error: a guess would be worse.
func ParseRule(line string) (Rule, error) {
	w, err := words(line)
	if err != nil {
		return Rule{}, err
	}
	if len(w) < 2 || w[0] != "-A" {
		return Rule{}, fmt.Errorf("iptables: %q is no rule", line)
	}
	p := parser{words: w[2:], r: Rule{Chain: w[1], Text: strings.TrimSuffix(line, "\n")}}
	for len(p.words) > 0 && p.err == nil {
		p.option()
	}
	return p.r, p.err
}

// words splits a line as a shell would: double quotes, and backslashes within.
func words(line string) ([]string, error) {
	out := make([]string, 0, 24)
	line = strings.TrimSpace(line)
	for line != "" {
		if line[0] != '"' {
			w, rest, _ := strings.Cut(line, " ")
			out = append(out, w)
			line = strings.TrimLeft(rest, " ")
			continue
		}
		var b strings.Builder
		i := 1
		for ; i < len(line) && line[i] != '"'; i++ {
			if line[i] == '\\' && i+1 < len(line) {
				i++
			}
			b.WriteByte(line[i])
		}
		if i >= len(line) {
			return nil, fmt.Errorf("iptables: quote without end in %q", line)
		}
		out = append(out, b.String())
		line = strings.TrimLeft(line[i+1:], " ")
	}
	return out, nil
}

type parser struct {
	words []string
	r     Rule
	not   bool
	err   error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("iptables: %s in rule %q", fmt.Sprintf(format, args...), p.r.Text)
	}
}

// next takes a word; without one the rule is broken.
func (p *parser) next() string {
	if len(p.words) == 0 {
		p.fail("something is missing")
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

func (p *parser) add(c cond) {
	c.not = p.not
	p.not = false
	p.r.conds = append(p.r.conds, c)
}

// option reads one option with its values.
func (p *parser) option() {
	switch w := p.next(); w {
	case "!":
		p.not = true
	case "-m", "--match":
		p.next()
	case "-s", "-d":
		p.add(cond{kind: map[string]kind{"-s": source, "-d": destination}[w], pref: p.prefix(p.next())})
	case "-i", "-o":
		p.add(cond{kind: map[string]kind{"-i": inDevice, "-o": outDevice}[w], name: p.next()})
	case "-p":
		p.add(cond{kind: protocol, name: p.next()})
	case "--dport", "--dports", "--sport":
		p.ports(w)
	case "--mark":
		v, m := p.valueAndMask(p.next())
		p.add(cond{kind: marked, mark: v, mask: m})
	case "--ctstate", "--state":
		p.add(cond{kind: state, name: p.next()})
	case "--src-type", "--dst-type":
		p.add(cond{kind: map[string]kind{"--src-type": sourceType, "--dst-type": destinationType}[w], name: p.next()})
	case "--comment", "--nfacct-name", "--mode", "--seconds", "--hitcount", "--name", "--mask", "--reject-with":
		p.next()
	case "--reap", "--rsource", "--random", "--random-fully", "--persistent":
	case "--probability":
		p.next()
		p.add(cond{kind: random})
	case "--rcheck", "--update":
		p.add(cond{kind: recall})
	case "--set":
		p.add(cond{kind: record})
	case "--remove":
		p.r.Forgotten = true
		p.add(cond{kind: recall})
	case "-j", "-g":
		p.r.Target, p.r.Goto = p.next(), w == "-g"
	case "--to-destination":
		p.r.To = p.addrPort(p.next())
	case "--set-xmark":
		p.r.Mark, p.r.MarkMask = p.valueAndMask(p.next())
	default:
		p.fail("unknown option %s", w)
	}
}

func (p *parser) prefix(s string) netip.Prefix {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	pre, err := netip.ParsePrefix(s)
	if err != nil {
		p.fail("bad prefix %s", s)
	}
	return pre
}

func (p *parser) addrPort(s string) netip.AddrPort {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		p.fail("bad destination %s", s)
	}
	return a
}

func (p *parser) ports(option string) {
	k := destinationPort
	if option == "--sport" {
		k = sourcePort
	}
	low, high, isRange := strings.Cut(p.next(), ":")
	if !isRange {
		high = low
	}
	p.add(cond{kind: k, low: p.port(low), high: p.port(high)})
}

func (p *parser) port(s string) uint16 {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		p.fail("bad port %s", s)
	}
	return uint16(n)
}

// valueAndMask reads 0x4000/0x4000; without a mask all bits count.
func (p *parser) valueAndMask(s string) (value, mask uint32) {
	v, m, ok := strings.Cut(s, "/")
	if !ok {
		m = "0xffffffff"
	}
	a, err1 := strconv.ParseUint(v, 0, 32)
	b, err2 := strconv.ParseUint(m, 0, 32)
	if err1 != nil || err2 != nil {
		p.fail("bad mark %s", s)
	}
	return uint32(a), uint32(b)
}

// Remembers reports whether the rule puts the sender on a list.
func (r *Rule) Remembers() bool {
	return slices.ContainsFunc(r.conds, func(c cond) bool { return c.kind == record })
}
