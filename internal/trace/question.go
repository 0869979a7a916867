// Package trace follows one request hop by hop and names the broken step. It owns the order of the hops, the comparison of
// what is declared, programmed and observed, and the choice of the one root cause. It decides nothing that a hop decides:
// it asks the hops through a View. It never writes to the cluster or to a node.
package trace

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/podway/podway/internal/flow"
)

// DefaultDomain is the cluster domain when nobody says otherwise.
const DefaultDomain = "cluster.local"

// Question is what the user asks: who sends what to whom.
type Question struct {
	From      flow.Kind  `json:"from"`
	Sender    string     `json:"sender,omitempty"`    // "namespace/pod" or node name; "" outside
	Namespace string     `json:"namespace,omitempty"` // where bare names are looked up; "" = the sender's, else "default"
	Addr      netip.Addr `json:"addr,omitzero"`       // outside: the client's address; zero = any
	Node      string     `json:"node,omitempty"`      // outside: the node where the packet enters; "" = as announced, or any ready one
	Proto     flow.Proto `json:"proto"`
	Target    string     `json:"target"`            // "cart", "cart.shop:80", "10.96.0.7:80", "http://cart/health", "svc/cart", "pod/cart-1:80", "node/n1:30080"
	Method    string     `json:"method,omitempty"`  // HTTP; "" = GET
	Resolve   netip.Addr `json:"resolve,omitzero"`  // the address to use instead of asking DNS for the target's name
	DNSType   string     `json:"dnsType,omitempty"` // set: only ask DNS for this record type of Target
	Domain    string     `json:"domain,omitempty"`  // cluster domain; "" = cluster.local
	Limit     int        `json:"limit,omitempty"`   // how many different nodes a fan-out is followed to; 0 = all
}

// Target is a parsed Question.Target.
type Target struct {
	Kind string // "" a name or address; "svc", "pod", "node" an object, Host then its name
	Host string
	Addr netip.Addr // set when Host is an address
	Port uint16     // 0 = the Service's only, or first, port
	URL  *flow.Request
}

// ParseTarget reads the forms of Question.Target. proto is "" unless the form says one (tcp://, udp://, http://).
func ParseTarget(s string) (t Target, proto flow.Proto, err error) {
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		switch scheme {
		case "http", "https":
			return parseURL(s)
		case "tcp", "udp", "sctp":
			proto, rest = flow.Proto(scheme), after
		default:
			return t, "", fmt.Errorf("target %q: scheme %q is none of http, https, tcp, udp, sctp", s, scheme)
		}
	}
	if kind, after, ok := strings.Cut(rest, "/"); ok {
		if t.Kind = objectKind(kind); t.Kind == "" {
			return t, "", fmt.Errorf("target %q: %q is none of svc/, pod/, node/ (for a path, write http://)", s, kind+"/")
		}
		rest = after
	}
	if t.Host, t.Port, err = splitPort(rest); err != nil {
		return t, "", fmt.Errorf("target %q: %w", s, err)
	}
	if t.Host == "" {
		return t, "", fmt.Errorf("target %q: no host", s)
	}
	if a, err := netip.ParseAddr(t.Host); err == nil && t.Kind == "" {
		t.Addr = a.Unmap()
	}
	if t.Addr.IsValid() && t.Port == 0 {
		return t, "", fmt.Errorf("target %q: an address needs a port", s)
	}
	return t, proto, nil
}

func parseURL(s string) (Target, flow.Proto, error) {
	u, err := url.Parse(s)
	if err != nil {
		return Target{}, "", fmt.Errorf("target %q: %w", s, err)
	}
	t := Target{Host: u.Hostname(), Port: 80, URL: &flow.Request{Scheme: u.Scheme, Host: u.Hostname(), Path: u.EscapedPath()}}
	if u.Scheme == "https" {
		t.Port = 443
	}
	if t.Host == "" {
		return t, "", fmt.Errorf("target %q: no host", s)
	}
	if t.URL.Path == "" {
		t.URL.Path = "/"
	}
	if p := u.Port(); p != "" {
		if t.Port, err = parsePort(p); err != nil {
			return t, "", fmt.Errorf("target %q: %w", s, err)
		}
	}
	if a, err := netip.ParseAddr(t.Host); err == nil {
		t.Addr = a.Unmap()
	}
	return t, flow.TCP, nil
}

// objectKind maps the spellings of kubectl to the kinds that a question may name.
func objectKind(s string) string {
	switch strings.ToLower(s) {
	case "svc", "service", "services":
		return "svc"
	case "po", "pod", "pods":
		return "pod"
	case "no", "node", "nodes":
		return "node"
	}
	return ""
}

// splitPort takes "host", "host:port", "[v6]:port" or a bare IPv6 address apart; port 0 = none.
func splitPort(s string) (string, uint16, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String(), 0, nil
	}
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 0, nil
	}
	port, err := parsePort(s[i+1:])
	return strings.Trim(s[:i], "[]"), port, err
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is no number from 1 to 65535", s)
	}
	return uint16(n), nil
}
