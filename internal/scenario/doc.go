// Package scenario reads and runs scenarios: txtar files with the objects of a cluster and sentences about what must reach
// what. The same file runs against the model alone, against the rendered rules, and with real packets between network
// namespaces. It owns the language (docs/scenarios.md is its reference) and the runner; how anything is decided is the
// hops' affair.
package scenario

import (
	"fmt"
	"strings"
)

// Level is how real a run is.
type Level string

// The levels, from cheap to real.
const (
	Model  Level = "model"  // what the API objects say should happen
	Rules  Level = "rules"  // what the rendered rules would do
	Kernel Level = "kernel" // what happened to real packets
)

// Levels lists all levels from cheap to real.
func Levels() []Level { return []Level{Model, Rules, Kernel} }

// ParseLevel reads the name of a level.
func ParseLevel(s string) (Level, error) {
	for _, l := range Levels() {
		if s == string(l) {
			return l, nil
		}
	}
	return "", fmt.Errorf("level %q is none of model, rules, kernel%s", s, didYouMean(s, "model", "rules", "kernel"))
}

// File is a scenario that was read without error.
type File struct {
	Name  string // as given to Parse
	About string // the comment before the first file: what it proves, and where that is written
	Steps []Step // the first is cluster.yaml, then then-1.yaml and so on
	data  []byte
}

// Step is one state of the cluster and what must be true in it.
type Step struct {
	Name   string // "cluster.yaml", "then-1.yaml"
	State  *State
	Expect []Expectation
}

// Expectation is one line: an Ask and the Outcome it must have.
type Expectation struct {
	Line   int
	Text   string // as written, blanks made single
	Levels []Level
	Modes  []string // of the service proxy; "!ebpf" = all others
	Ask    Ask
	Want   Outcome
}

// At reports whether the expectation is to be checked at a level.
func (e Expectation) At(l Level) bool {
	for _, x := range e.Levels {
		if x == l {
			return true
		}
	}
	return len(e.Levels) == 0
}

// In reports whether the expectation is to be checked in a mode of the service proxy; "" is a run that has none.
func (e Expectation) In(mode string) bool {
	yes := true
	for _, m := range e.Modes {
		not, excluded := strings.CutPrefix(m, "!")
		switch {
		case excluded && not == mode:
			return false
		case !excluded && m == mode:
			return true
		case !excluded:
			yes = false
		}
	}
	return yes
}

// proxyModes are the modes that an expectation can be limited to: kube-proxy's names and ebpf.
var proxyModes = []string{"nftables", "iptables", "ipvs", "ebpf"}

// Problem is an error in a file with the line it is on.
type Problem struct {
	File string
	Line int
	Err  error
}

func (p *Problem) Error() string { return fmt.Sprintf("%s:%d: %v", p.File, p.Line, p.Err) }

// Unwrap returns the error without its place.
func (p *Problem) Unwrap() error { return p.Err }
