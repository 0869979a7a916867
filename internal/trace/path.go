package trace

import (
	"context"
	"errors"
	"net/netip"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// The hops as a Path names them. All but HopProcess are the names of hop.Hop.
const (
	HopName     = "dns"
	HopAnnounce = "announce"
	HopIngress  = "ingress"
	HopProxy    = "proxy"
	HopPodnet   = "podnet"
	HopProcess  = "process"
)

// View is one layer's answer for a hop of a node: what is declared, what is programmed, or what rendered rules say.
type View interface {
	// Verdict is what the hop does with f on the node. An error that wraps ErrNotChecked says that this view cannot know.
	Verdict(ctx context.Context, hop, node string, f flow.Flow) (flow.Verdict, error)
}

// ErrNotChecked is the error of a View that has nothing to say of a hop.
var ErrNotChecked = errors.New("not checked")

// State is how a step ended.
type State string

// The states. A step is OK only when it was really decided.
const (
	OK        State = "ok"
	Broken    State = "broken"     // the first step where the request does not go on as it should
	WouldPass State = "would pass" // after the broken step: had the request come here, it would go on
	WouldFail State = "would fail" // after the broken step: this one is broken as well
	Unknown   State = "unknown"    // nobody could say
)

// Step is one hop of the way on one node.
type Step struct {
	Hop      string
	Node     string       `json:",omitempty"`
	Flow     flow.Flow    // as it arrives
	Verdict  flow.Verdict // of the view that was walked
	Err      error        `json:"-"` // why there is no verdict
	State    State
	Service  model.Name     `json:",omitzero"`  // whose address Flow.Dst is
	Port     uint16         `json:",omitempty"` // of the Service
	Pods     []model.Name   `json:",omitempty"` // podnet, process, ingress: the Pods it stands for
	Detail   string         `json:",omitempty"` // what happened, in words for people
	Findings []flow.Finding `json:",omitempty"` // of this package; the hop's own are in Verdict.Findings
	Leg      int            `json:",omitempty"` // 0 up to the ingress, 1 behind it

	// Unchecked is what the objects cannot say of a step that they let pass: whether a process of a node, or a machine beyond
	// the nodes, answers. Until it is seen, the step is unknown.
	Unchecked string `json:",omitempty"`

	// Way is what the Service proxy of the node does with a Pod's question to the DNS server's address; nil = not asked.
	Way *flow.Verdict `json:",omitempty"`

	// Filled in by Compare.
	Programmed *flow.Verdict `json:",omitempty"` // of the node's live state; nil = not asked, or no answer
	Unasked    string        `json:",omitempty"` // why Programmed is nil, or the sockets were not seen
	Observed   []string      `json:",omitempty"` // what was seen: sockets, and probes when they were asked for
	Seen       bool          `json:",omitempty"` // what was observed is enough to say that the step works
}

// Outcome is where the request ended.
type Outcome struct {
	Action  flow.Action      `json:"action"`            // of the broken step, or Forward, Pass (leaves the cluster) or Answer
	Targets []netip.AddrPort `json:"targets,omitempty"` // where it may end, sorted
	Pods    []string         `json:"pods,omitempty"`    // "namespace/name" of those that are Pods, sorted
	Node    string           `json:"node,omitempty"`    // it ends at a process of this node
	Status  int              `json:"status,omitempty"`  // HTTP status by the ingress; 0 = the Pod's own
	Rcode   string           `json:"rcode,omitempty"`   // DNS
	Records []string         `json:"records,omitempty"` // DNS
}

// Path is the way of one request.
type Path struct {
	Question   Question
	Steps      []Step
	Outcome    Outcome
	NotChecked []string `json:",omitempty"` // what was left out, and why
	Err        error    `json:"-"`          // the question could not be walked at all (an unknown sender, a bad target)
}

// BrokenStep returns the first broken step, or nil.
func (p *Path) BrokenStep() *Step {
	for i := range p.Steps {
		if p.Steps[i].State == Broken {
			return &p.Steps[i]
		}
	}
	return nil
}

// Step returns the first step at a hop, or nil.
func (p *Path) Step(hop string) *Step {
	for i := range p.Steps {
		if p.Steps[i].Hop == hop {
			return &p.Steps[i]
		}
	}
	return nil
}
