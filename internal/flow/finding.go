package flow

import "strings"

// Code is a stable name of one cause: PW-nnnn. The same code stands in trace, event, log, metric label and page.
type Code string

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the request does not arrive, or not as the user meant
	Warning Severity = "warning" // it arrives, something is at risk
	Info    Severity = "info"
)

// Finding is something a user can mend: one code, one object, one sentence of cause, one fix.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Object   string   `json:"object"`             // "Service shop/cart", "node node-2"
	Cause    string   `json:"cause"`              // one sentence, with the facts of this case
	Evidence []string `json:"evidence,omitempty"` // "declared ...", "programmed ...", "observed ..." lines
	Fix      string   `json:"fix"`                // a command or a diff
}

// Cause describes a code for everybody: docs/findings.md is generated from the table in codes.go.
type Cause struct {
	Code    Code   `json:"code"`
	Hop     string `json:"hop"`
	Title   string `json:"title"` // lower case, no final dot
	Meaning string `json:"meaning"`
	Fix     string `json:"fix"`
}

// Says is the cause as it reads behind the object: "Service shop/cart: has no port 81/tcp".
func (f *Finding) Says() string { return strings.TrimPrefix(f.Cause, f.Object+" ") }
