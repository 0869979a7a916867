package nft

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Text writes the table in the syntax of the nft command, chains and sets in order of their names, elements in order of
// their bytes, so that equal tables have equal texts.
func (t *Table) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s %s {\n", t.Family, t.Name)
	if t.Comment != "" {
		fmt.Fprintf(&b, "\tcomment %q\n", t.Comment)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Sets)) {
		t.Sets[name].text(&b)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Chains)) {
		t.Chains[name].text(&b, t)
	}
	b.WriteString("}\n")
	return b.String()
}

func (s *Set) text(b *strings.Builder) {
	kind, data := "set", ""
	if s.IsMap() {
		kind, data = "map", " : "+typeNames(s.Data)
		if s.Verdicts {
			data = " : verdict"
		}
	}
	fmt.Fprintf(b, "\t%s %s {\n\t\ttype %s%s\n", kind, s.Name, typeNames(s.Key), data)
	var flags []string
	if s.Interval {
		flags = append(flags, "interval")
	}
	if s.Dynamic {
		flags = append(flags, "dynamic", "timeout")
	}
	if len(flags) > 0 {
		fmt.Fprintf(b, "\t\tflags %s\n", strings.Join(flags, ","))
	}
	if s.Timeout > 0 {
		fmt.Fprintf(b, "\t\ttimeout %s\n", seconds(s.Timeout))
	}
	if s.Size > 0 {
		fmt.Fprintf(b, "\t\tsize %d\n", s.Size)
	}
	for i, k := range slices.Sorted(maps.Keys(s.Elems)) {
		if i == 0 {
			b.WriteString("\t\telements = {\n")
		}
		fmt.Fprintf(b, "\t\t\t%s,\n", s.element(k))
	}
	if len(s.Elems) > 0 {
		b.WriteString("\t\t}\n")
	}
	b.WriteString("\t}\n")
}

// element is one element as text.
func (s *Set) element(k string) string {
	out := s.FormatKey(k)
	switch {
	case s.Verdicts:
		out += " : " + s.Elems[k]
	case len(s.Data) > 0:
		out += " : " + FormatFields(s.Data, s.Elems[k])
	}
	return out
}

// FormatKey writes a key of the set in nft's syntax.
func (s *Set) FormatKey(k string) string {
	if !s.Interval {
		return FormatFields(s.Key, k)
	}
	from, to := Fields(s.Key, k[:len(k)/2]), Fields(s.Key, k[len(k)/2:])
	if from == nil || to == nil {
		return fmt.Sprintf("0x%x", k)
	}
	out := make([]string, len(from))
	for i, t := range s.Key {
		out[i] = formatRange(t, from[i], to[i])
	}
	return strings.Join(out, " . ")
}

func formatRange(t Type, from, to string) string {
	if from == to {
		return t.format(from)
	}
	if t == IPv4Addr || t == IPv6Addr {
		if n, ok := prefixBits(from, to); ok {
			return netip.PrefixFrom(AddrOf(from), n).String()
		}
	}
	return t.format(from) + "-" + t.format(to)
}

// prefixBits is the length of the prefix that spans exactly from..to.
func prefixBits(from, to string) (int, bool) {
	n, host := 0, false
	for i := range len(from) {
		diff := from[i] ^ to[i]
		ones := bits.LeadingZeros8(diff)
		tail := byte(0xff) >> ones
		if diff != tail || from[i]&tail != 0 || host && ones != 0 {
			return 0, false
		}
		n += ones
		host = host || ones < 8
	}
	return n, true
}

func typeNames(ts []Type) string {
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = t.String()
	}
	return strings.Join(out, " . ")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int64(d/time.Second)) }

func (c *Chain) text(b *strings.Builder, t *Table) {
	fmt.Fprintf(b, "\tchain %s {\n", c.Name)
	if c.Base != nil {
		policy := "accept"
		if c.Base.Drop {
			policy = "drop"
		}
		fmt.Fprintf(b, "\t\ttype %s hook %s priority %d; policy %s;\n", c.Base.Type, c.Base.Hook, c.Base.Priority, policy)
	}
	for _, r := range c.Rules {
		fmt.Fprintf(b, "\t\t%s\n", r.Text(t))
	}
	b.WriteString("\t}\n")
}

// String is nft's word for a verdict, also the value of a verdict map's element.
func (v Verdict) String() string {
	switch v.Kind {
	case Drop:
		return "drop"
	case Accept:
		return "accept"
	case Return:
		return "return"
	case Jump:
		return "jump " + v.Chain
	case Goto:
		return "goto " + v.Chain
	}
	return fmt.Sprintf("verdict %d", v.Kind)
}

// ParseVerdict reads what Verdict.String wrote.
func ParseVerdict(s string) (Verdict, bool) {
	word, chain, _ := strings.Cut(s, " ")
	kinds := map[string]VerdictKind{"drop": Drop, "accept": Accept, "return": Return, "jump": Jump, "goto": Goto}
	k, ok := kinds[word]
	return Verdict{Kind: k, Chain: chain}, ok && (chain != "") == (k == Jump || k == Goto)
}

// formatNumber writes register bytes that have no type: a number in the host's order when they are four.
func formatNumber(s string) string {
	if len(s) == 4 {
		return fmt.Sprintf("0x%x", binary.NativeEndian.Uint32([]byte(s)))
	}
	return fmt.Sprintf("0x%x", s)
}
