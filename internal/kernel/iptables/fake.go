package iptables

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Fake is a Door to tables in memory, which begin empty with the kernel's own chains. It is safe for concurrent use.
type Fake struct {
	// Fail, when set, is asked before every Restore and with each COMMIT; its error is the Restore's.
	Fail func() error
	// Chains bounds the chains of one COMMIT, as Chunk tells it.
	Chains int
	// NoIPv6 takes the family away.
	NoIPv6 bool

	mu       sync.Mutex
	tables   map[string]map[string][]string // "iptables nat" -> chain -> rules
	writes   int
	restores int
}

// NewFake returns a host without any rule.
func NewFake() *Fake { return &Fake{} }

// builtins are the kernel's own chains.
var builtins = map[string][]string{
	NAT:    {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	Filter: {"INPUT", "FORWARD", "OUTPUT"},
	Mangle: {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
}

// Restores counts the calls of Restore.
func (f *Fake) Restores() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.restores
}

// Has implements Door.
func (f *Fake) Has(fam Family) bool { return fam == IPv4 || !f.NoIPv6 }

// Chunk implements Door.
func (f *Fake) Chunk() int { return f.Chains }

// Stamp implements Door.
func (f *Fake) Stamp(context.Context) (Stamp, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stamp(fmt.Sprintf("fake %d", f.writes)), nil
}

// Restore implements Door.
func (f *Fake) Restore(_ context.Context, fam Family, input []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restores++
	if !f.Has(fam) {
		return fmt.Errorf("iptables: %s: no such family", fam)
	}
	if err := f.refuse(); err != nil {
		return err
	}
	var table string
	var work map[string][]string
	for n, line := range strings.Split(strings.TrimSuffix(string(input), "\n"), "\n") {
		var err error
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '*':
			table = line[1:]
			work, err = f.copyOf(fam, table)
		case line == "COMMIT":
			if err = f.refuse(); err == nil {
				err = f.commit(fam, table, work)
			}
			work = nil
		case work == nil:
			err = fmt.Errorf("outside of a table")
		default:
			err = change(work, table, line)
		}
		if err != nil {
			return fmt.Errorf("iptables: %s-restore: line %d: %s: %w", fam, n+1, line, err)
		}
	}
	return nil
}

func (f *Fake) refuse() error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail()
}

func (f *Fake) copyOf(fam Family, table string) (map[string][]string, error) {
	own, ok := builtins[table]
	if !ok {
		return nil, fmt.Errorf("no such table")
	}
	out := map[string][]string{}
	for _, c := range own {
		out[c] = nil
	}
	for c, rules := range f.tables[fam.String()+" "+table] {
		out[c] = slices.Clone(rules)
	}
	return out, nil
}

// commit takes the table over when all its jumps lead somewhere.
func (f *Fake) commit(fam Family, table string, work map[string][]string) error {
	for chain, rules := range work {
		for _, r := range rules {
			p, err := ParseRule(r)
			if err != nil {
				return err
			}
			if p.Chain != chain {
				return fmt.Errorf("rule of %s in %s", p.Chain, chain)
			}
			if _, ok := work[p.Target]; !ok && p.Target != "" && !targets[p.Target] {
				return fmt.Errorf("no chain %s", p.Target)
			}
		}
	}
	if f.tables == nil {
		f.tables = map[string]map[string][]string{}
	}
	f.tables[fam.String()+" "+table] = work
	f.writes++
	return nil
}

var targets = map[string]bool{"ACCEPT": true, "DROP": true, "REJECT": true, "RETURN": true, "DNAT": true, "MARK": true, "MASQUERADE": true}

// change carries out one line of the input.
func change(work map[string][]string, table, line string) error {
	if line[0] == ':' {
		chain, _, _ := strings.Cut(line[1:], " ")
		work[chain] = nil
		return nil
	}
	op, rest, _ := strings.Cut(line, " ")
	chain, spec, _ := strings.Cut(rest, " ")
	rules, ok := work[chain]
	if !ok {
		return fmt.Errorf("no chain %s", chain)
	}
	rule := "-A " + chain + " " + spec
	switch op {
	case "-A":
		work[chain] = append(rules, rule)
	case "-I":
		work[chain] = slices.Insert(rules, 0, rule)
	case "-D":
		i := slices.Index(rules, rule)
		if i < 0 {
			return fmt.Errorf("no such rule")
		}
		work[chain] = slices.Delete(rules, i, i+1)
	case "-F":
		work[chain] = nil
	case "-X":
		return remove(work, table, chain)
	default:
		return fmt.Errorf("unknown command %s", op)
	}
	return nil
}

func remove(work map[string][]string, table, chain string) error {
	if len(work[chain]) > 0 || slices.Contains(builtins[table], chain) {
		return fmt.Errorf("chain is not empty, or the kernel's")
	}
	for _, rules := range work {
		for _, r := range rules {
			if strings.HasSuffix(r, " -j "+chain) {
				return fmt.Errorf("chain is in use by %s", r)
			}
		}
	}
	delete(work, chain)
	return nil
}

// Read implements Door.
func (f *Fake) Read(_ context.Context, fam Family, table string, ours func(string) bool) (*Table, error) {
	return Parse(fam, table, f.Save(fam, table), ours), nil
}

// Look implements Door.
func (f *Fake) Look(_ context.Context, fam Family, ours func(string) bool) func(table, chain string) (string, bool, error) {
	return func(table, chain string) (string, bool, error) {
		rules, exists := Parse(fam, table, f.Save(fam, table), ours).Chains[chain]
		return rules, exists, nil
	}
}

// Save returns a whole table as iptables-save prints it, "" when it was never written.
func (f *Fake) Save(fam Family, table string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tables[fam.String()+" "+table]
	if t == nil {
		return ""
	}
	var chains, rules bytes.Buffer
	for _, c := range sorted(t) {
		policy := "-"
		if slices.Contains(builtins[table], c) {
			policy = "ACCEPT"
		}
		fmt.Fprintf(&chains, ":%s %s [0:0]\n", c, policy)
		for _, r := range t[c] {
			rules.WriteString(r + "\n")
		}
	}
	return "*" + table + "\n" + chains.String() + rules.String() + "COMMIT\n"
}

func sorted(t map[string][]string) []string {
	var out []string
	for c := range t {
		out = append(out, c)
	}
	slices.Sort(out)
	return out
}
