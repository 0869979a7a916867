package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
)

// SchemaVersion of the JSON report; it counts up when a field changes its meaning or goes away.
const SchemaVersion = 1

// Exit codes of a report, as the command line has them.
const (
	ExitOK      = 0
	ExitBroken  = 1
	ExitUnknown = 2
)

// Report is a trace as it is shown: in text, as JSON, and on the page.
type Report struct {
	SchemaVersion int            `json:"schemaVersion"`
	Question      Question       `json:"question"`
	From          string         `json:"from"`
	To            string         `json:"to"`
	Note          string         `json:"note,omitempty"`      // what was chosen for the user
	Predicted     bool           `json:"predicted,omitempty"` // only the API's objects were looked at
	Result        string         `json:"result"`              // ok, broken, unknown
	Summary       string         `json:"summary"`
	Exit          int            `json:"exit"`
	Steps         []ReportStep   `json:"steps"`
	Outcome       Outcome        `json:"outcome"`
	Finding       *flow.Finding  `json:"finding,omitempty"` // the one cause
	Others        []flow.Finding `json:"others,omitempty"`
	NotChecked    []string       `json:"notChecked,omitempty"`
}

// ReportStep is one hop on one node.
type ReportStep struct {
	Hop        string        `json:"hop"`
	Label      string        `json:"label"` // the hop's name for people
	Node       string        `json:"node,omitempty"`
	State      State         `json:"state"`
	Detail     string        `json:"detail"`
	Flow       flow.Flow     `json:"flow"`
	Pods       []string      `json:"pods,omitempty"`
	Declared   flow.Verdict  `json:"declared"`
	Programmed *flow.Verdict `json:"programmed,omitempty"`
	Observed   []string      `json:"observed,omitempty"`
	Unknown    string        `json:"unknown,omitempty"` // why a layer is missing
	leg        int
}

// Labels are the hops' names for people.
var labels = map[string]string{HopName: "name", HopAnnounce: "address", HopIngress: "ingress", HopProxy: "service", HopPodnet: "network", HopProcess: "process"}

// Report explains the path. predicted says that nothing but the API's objects was looked at.
func (x *Index) Report(p Path, predicted bool) Report {
	r := Report{SchemaVersion: SchemaVersion, Question: p.Question, From: x.senderText(p.Question), To: p.Question.Target, Predicted: predicted,
		Outcome: p.Outcome, NotChecked: slices.Clone(p.NotChecked)}
	if p.Question.DNSType != "" {
		r.To = "the " + p.Question.DNSType + " records of " + p.Question.Target
	}
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.State == OK && st.open() {
			st.State = Unknown
		}
		r.Steps = append(r.Steps, x.reportStep(*st))
		if st.open() {
			r.notChecked(st.Unchecked)
		}
	}
	r.notKnown(p.Steps)
	r.Finding, r.Others = x.Explain(&p)
	r.conclude(&p)
	return r
}

// notKnown says of which hops nobody told anything, once for each node and reason.
func (r *Report) notKnown(steps []Step) {
	hops, order := map[string][]string{}, []string(nil)
	for i := range steps {
		why := steps[i].Unasked
		if why == "" && steps[i].Err != nil {
			why = reason(steps[i].Err)
		}
		if why == "" {
			continue
		}
		key := " on node " + steps[i].Node + ": " + why
		if hops[key] == nil {
			order = append(order, key)
		}
		if label := labels[steps[i].Hop]; !slices.Contains(hops[key], label) {
			hops[key] = append(hops[key], label)
		}
	}
	for _, key := range order {
		r.notChecked(strings.Join(hops[key], ", ") + key)
	}
}

// open reports whether nobody could tell what the objects do not say.
func (st *Step) open() bool { return st.Unchecked != "" && !st.Seen }

func (r *Report) notChecked(s string) {
	if !slices.Contains(r.NotChecked, s) {
		r.NotChecked = append(r.NotChecked, s)
	}
}

func (x *Index) reportStep(st Step) ReportStep {
	out := ReportStep{Hop: st.Hop, Label: labels[st.Hop], Node: st.Node, State: st.State, Detail: x.detail(&st), Flow: st.Flow,
		Declared: st.Verdict, Programmed: st.Programmed, Observed: st.Observed, Unknown: st.Unasked, leg: st.Leg}
	if st.Err != nil && out.Unknown == "" {
		out.Unknown = reason(st.Err)
	}
	for _, p := range st.Pods {
		out.Pods = append(out.Pods, p.String())
	}
	return out
}

// conclude sets the result, the summary and the exit code. What was not checked is never called ok.
func (r *Report) conclude(p *Path) {
	broken := p.BrokenStep()
	unknown := slices.ContainsFunc(p.Steps, func(st Step) bool { return st.State == Unknown })
	switch {
	case broken != nil:
		r.Result, r.Exit = "broken", ExitBroken
		r.Summary = fmt.Sprintf("%s at %s", failureText(p.Outcome), labels[broken.Hop])
		if broken.Node != "" {
			r.Summary += " on node " + broken.Node
		}
	case r.Finding != nil:
		r.Result, r.Exit = "broken", ExitBroken
		r.Summary = "arrives, but not as it should: " + successText(p.Outcome)
	case unknown || len(p.Steps) == 0 || p.Outcome.beyond():
		r.Result, r.Exit = "unknown", ExitUnknown
		r.Summary = "nothing broken was found, but not everything could be checked: " + successText(p.Outcome)
	default:
		r.Result, r.Exit = "ok", ExitOK
		r.Summary = successText(p.Outcome)
	}
}

// beyond reports whether the way leads to a name outside the cluster, of which not even the address is known.
func (o Outcome) beyond() bool {
	return o.Action == flow.Pass && len(o.Targets) == 0 && o.Node == ""
}

func failureText(o Outcome) string {
	switch {
	case o.Status != 0:
		return fmt.Sprintf("answered with HTTP %d", o.Status)
	case o.Rcode == "NOERROR":
		return "no address"
	case o.Rcode != "":
		return o.Rcode
	}
	return string(o.Action)
}

func successText(o Outcome) string {
	switch {
	case o.Action == flow.Answer && o.Rcode != "":
		return fmt.Sprintf("%s %s", o.Rcode, strings.Join(o.Records, ", "))
	case o.Action == flow.Answer:
		return fmt.Sprintf("the ingress answers with HTTP %d", o.Status)
	case len(o.Pods) == 1:
		return "reaches Pod " + o.Pods[0]
	case len(o.Pods) > 1:
		return fmt.Sprintf("reaches one of %d Pods: %s", len(o.Pods), strings.Join(o.Pods[:min(len(o.Pods), 4)], ", "))
	case o.Node != "":
		return "reaches node " + o.Node + " itself"
	case len(o.Targets) > 0:
		return fmt.Sprintf("leaves the cluster for %s", o.Targets[0])
	case o.Action == flow.Pass:
		return "leaves the cluster"
	}
	return "no end was found"
}

// senderText is the sender for people: "pod shop/web (10.244.1.5) on node n1".
func (x *Index) senderText(q Question) string {
	w := &walker{Index: x, q: q}
	f, err := w.sender()
	if err != nil {
		return string(q.From) + " " + q.Sender
	}
	s := string(q.From)
	if q.Sender != "" {
		s += " " + q.Sender
	}
	src := w.source(f, true)
	if !src.IsValid() {
		src = w.source(f, false)
	}
	if src.Addr().IsValid() {
		s += " (" + src.Addr().String() + ")"
	}
	if f.Node != "" && f.Node != q.Sender {
		s += " on node " + f.Node
	}
	return s
}
