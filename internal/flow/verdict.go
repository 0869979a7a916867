package flow

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Action is what a hop does with a flow.
type Action string

// The actions.
const (
	Pass    Action = "pass"    // not this hop's matter: goes on as it is
	Forward Action = "forward" // goes on to one of Targets
	Refused Action = "refused" // answered at once with a reset or an ICMP unreachable
	Dropped Action = "dropped" // silence
	Answer  Action = "answer"  // the hop itself answers: DNS records, an HTTP status
)

// Verdict is what a hop does with a flow. Two verdicts agree when Same says so.
type Verdict struct {
	Action     Action           `json:"action"`
	Targets    []netip.AddrPort `json:"targets,omitempty"`    // Forward: where it may go, sorted, each equally likely
	Masquerade bool             `json:"masquerade,omitempty"` // the target sees the node's address, not the sender's
	AtSocket   bool             `json:"atSocket,omitempty"`   // the sender's own socket is connected to the target, so nothing changes the source on the way
	Sticky     bool             `json:"sticky,omitempty"`     // the same sender keeps the target it got first
	Rcode      string           `json:"rcode,omitempty"`      // DNS: NOERROR, NXDOMAIN, SERVFAIL, REFUSED
	Records    []string         `json:"records,omitempty"`    // DNS: "A 10.96.0.7", "SRV 0 100 80 cart.shop.svc.cluster.local.", sorted
	Name       string           `json:"name,omitempty"`       // DNS: the absolute name that answered
	Status     int              `json:"status,omitempty"`     // HTTP status that the hop itself answers with; 0 = the target's
	Device     string           `json:"device,omitempty"`     // podnet: device and gateway the packet leaves by
	Via        netip.Addr       `json:"via,omitzero"`
	Node       string           `json:"node,omitempty"` // announce: the node that answers for the address; podnet: the Pod's node
	// Why is the object, rule, route or record that decided, in words for people; not compared.
	Why string `json:"why,omitempty"`
	// Findings say what is wrong, most likely cause first; not compared.
	Findings []Finding `json:"findings,omitempty"`
}

// Same reports whether two verdicts mean the same to the sender. Device, Via, Why and Findings are not compared, nor is
// Masquerade where one of them is at the socket: masquerading makes answers find back, which needs nothing there.
func (v Verdict) Same(o Verdict) bool {
	return v.Action == o.Action && slices.Equal(v.Targets, o.Targets) && (v.Masquerade == o.Masquerade || v.AtSocket || o.AtSocket) &&
		v.Sticky == o.Sticky && v.Rcode == o.Rcode && slices.Equal(v.Records, o.Records) && v.Status == o.Status && v.Node == o.Node
}

// Good reports whether the flow goes on or was answered as a client hopes: no refusal, no drop, no error status.
func (v Verdict) Good() bool {
	switch v.Action {
	case Pass, Forward:
		return true
	case Answer:
		return (v.Rcode == "" || v.Rcode == "NOERROR" && len(v.Records) > 0) && v.Status < 400
	}
	return false
}

// String is one line for people and golden files: what Same compares.
func (v Verdict) String() string {
	var b strings.Builder
	b.WriteString(string(v.Action))
	for _, t := range v.Targets {
		fmt.Fprintf(&b, " %s", t)
	}
	if v.Rcode != "" {
		fmt.Fprintf(&b, " %s", v.Rcode)
	}
	if len(v.Records) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(v.Records, ", "))
	}
	if v.Status != 0 {
		fmt.Fprintf(&b, " status %d", v.Status)
	}
	if v.Node != "" {
		fmt.Fprintf(&b, " node %s", v.Node)
	}
	if v.Masquerade {
		b.WriteString(" masquerade")
	}
	if v.AtSocket {
		b.WriteString(" at-socket")
	}
	if v.Sticky {
		b.WriteString(" sticky")
	}
	return b.String()
}

// SortTargets puts the targets in the order that Same expects and removes duplicates.
func SortTargets(t []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(t, netip.AddrPort.Compare)
	return slices.Compact(t)
}
