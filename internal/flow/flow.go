// Package flow holds the words that hops and the tracer share: a Flow (what somebody sends), a Verdict (what a hop does
// with it) and a Finding (what a user can mend). It decides nothing and knows no Kubernetes object.
package flow

import (
	"fmt"
	"net/netip"
)

// Kind says who sends a flow.
type Kind string

// The senders.
const (
	FromPod     Kind = "pod"
	FromNode    Kind = "node"    // a process in a node's own network namespace
	FromOutside Kind = "outside" // anybody beyond the nodes
)

// Proto is a transport protocol in lower case: tcp, udp, sctp.
type Proto string

// The transports.
const (
	TCP  Proto = "tcp"
	UDP  Proto = "udp"
	SCTP Proto = "sctp"
)

// Number is the transport's in IP headers (IANA protocol numbers); TCP's for any other word.
func (p Proto) Number() uint8 {
	switch p {
	case UDP:
		return 17
	case SCTP:
		return 132
	}
	return 6
}

// Flow is one new connection (or one datagram exchange, or one question) as it arrives at a hop. Each hop may replace
// its destination; the tracer then asks the next one.
type Flow struct {
	From   Kind           `json:"from"`
	Sender string         `json:"sender,omitempty"` // "namespace/pod", node name, or "" outside
	Node   string         `json:"node,omitempty"`   // the node whose live state decides: the sender's, or the one where the packet enters
	Proto  Proto          `json:"proto"`
	Src    netip.AddrPort `json:"src,omitzero"` // port 0 = any
	Dst    netip.AddrPort `json:"dst,omitzero"`
	DNS    *Question      `json:"dns,omitempty"`  // set at hop dns: what is asked of the server at Dst
	HTTP   *Request       `json:"http,omitempty"` // set at hop ingress: what is asked of the proxy
	// DstLocal says whether Dst is an address of Node itself (its NodePorts answer there).
	DstLocal bool `json:"dstLocal,omitempty"`
	// SrcLocal says that the sender is a Pod of Node.
	SrcLocal bool `json:"srcLocal,omitempty"`
}

// Question is a DNS question.
type Question struct {
	Name string `json:"name"` // as typed; searched when it is not absolute
	Type string `json:"type"` // A, AAAA, SRV, PTR, ...
	// Search is the client's search list, tried in order when Name has fewer than NDots dots.
	Search []string `json:"search,omitempty"`
	NDots  int      `json:"ndots,omitempty"`
}

// Request is an HTTP request as the ingress sees it.
type Request struct {
	Scheme string `json:"scheme"` // http or https
	Host   string `json:"host"`   // Host header and SNI, without port
	Path   string `json:"path"`
	Method string `json:"method,omitempty"`
}

// String is for people: "pod shop/web (10.244.1.5) on node-1 -> tcp 10.96.0.7:80".
func (f Flow) String() string {
	s := string(f.From)
	if f.Sender != "" {
		s += " " + f.Sender
	}
	if f.Src.Addr().IsValid() {
		s += " (" + f.Src.Addr().String() + ")"
	}
	if f.Node != "" {
		s += " on " + f.Node
	}
	return fmt.Sprintf("%s -> %s %s", s, f.Proto, f.Dst)
}
