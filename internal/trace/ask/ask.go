// Package ask is how trace asks the podway of a node: what a hop's live state would do with a flow, which sockets a Pod
// listens on, and how the agent itself is. It owns the messages, the server in the agent and the client. The server reads
// and never writes; it listens on a unix socket that only root can open.
package ask

import (
	"errors"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/trace/sockets"
)

// SocketPath is where a podway process of a node, or of an ingress Pod, answers.
const SocketPath = "/run/podway/agent.sock"

// Request is one question. Exactly one of its fields is set. Requests and answers are JSON values one after another; the
// answers come in the order of the requests.
type Request struct {
	Hop     *HopRequest     `json:"hop,omitempty"`
	Sockets *SocketsRequest `json:"sockets,omitempty"`
	Status  *StatusRequest  `json:"status,omitempty"`
}

// HopRequest asks what the hop's live state would do with Flow.
type HopRequest struct {
	Name string    `json:"name"`
	Flow flow.Flow `json:"flow"`
}

// SocketsRequest asks what a Pod of this node listens on, or the node itself, or many Pods at once. An agent that does not
// know the latter two takes them for a question about no Pod and says so.
type SocketsRequest struct {
	PodUID  string   `json:"podUID"`
	Node    bool     `json:"node,omitempty"`
	PodUIDs []string `json:"podUIDs,omitempty"`
}

// StatusRequest asks how the agent is.
type StatusRequest struct{}

// Answer is the answer to one Request: the field of the same name, or Error.
type Answer struct {
	Hop     *flow.Verdict   `json:"hop,omitempty"`
	Sockets *sockets.Report `json:"sockets,omitempty"`
	Pods    PodSockets      `json:"pods,omitempty"`
	Status  *Status         `json:"status,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// PodSockets is what each Pod listens on, by UID. A Pod without processes is not in it.
type PodSockets map[string]sockets.Report

// Status is how an agent is.
type Status struct {
	Node      string            `json:"node"`
	Version   string            `json:"version,omitempty"`
	Hops      []string          `json:"hops"`                // switched on, in the order of the way
	Rev       uint64            `json:"rev"`                 // of the last snapshot applied
	Synced    bool              `json:"synced"`              // the first complete view has come
	Lost      time.Duration     `json:"lost,omitempty"`      // how long the API server has been away; 0 = it is not
	Failing   map[string]string `json:"failing,omitempty"`   // hop -> error of its last apply
	Findings  []flow.Finding    `json:"findings,omitempty"`  // of the last applies
	Conntrack *Conntrack        `json:"conntrack,omitempty"` // filled in by the server
}

// Conntrack is how full the node's connection tracking table is.
type Conntrack struct {
	Count int `json:"count"`
	Max   int `json:"max"`
}

// Error is why there is no answer.
type Error struct {
	Code string `json:"code"` // "off", "no-process", "failed"
	Text string `json:"text"`
}

// The codes of Error.
const (
	codeOff       = "off"
	codeNoProcess = "no-process"
	codeFailed    = "failed"
)

// ErrOff says that the hop is switched off on the node.
var ErrOff = errors.New("the hop is switched off on this node")

func (e *Error) Error() string { return e.Text }

// Is lets errors.Is find ErrOff and sockets.ErrNoProcess on the client's side.
func (e *Error) Is(target error) bool {
	return e.Code == codeOff && target == ErrOff || e.Code == codeNoProcess && target == sockets.ErrNoProcess
}
