// Package probe sends one real request, from the network namespace of a Pod or of the node, and says how it ended. It owns
// the kinds of failure; trace draws the conclusions. It runs nothing in the Pod: only a thread of this process enters the
// Pod's network namespace.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/podway/podway/internal/flow"
)

// Kind is what is sent.
type Kind string

// The kinds.
const (
	DNS  Kind = "dns"  // a question to Dst
	Conn Kind = "conn" // a TCP connection, closed at once
	HTTP Kind = "http" // an HTTP request to Dst
)

// Request is one probe.
type Request struct {
	Kind    Kind           `json:"kind"`
	PodUID  string         `json:"podUID,omitempty"` // send from this Pod's network namespace; "" = from this process's own
	NetNS   string         `json:"netns,omitempty"`  // send from the namespace at this path instead
	Dst     netip.AddrPort `json:"dst"`              // the address that is dialled
	DNS     *flow.Question `json:"dns,omitempty"`
	HTTP    *flow.Request  `json:"http,omitempty"`
	Timeout time.Duration  `json:"timeout,omitempty"` // of the whole probe; 0 = 2 s
}

// Result is how a probe ended.
type Result string

// The results. The kind of failure tells causes apart.
const (
	Answered Result = "answered" // a connection, an HTTP status or a DNS message came back
	Refused  Result = "refused"  // a reset, or port unreachable, at once
	NoRoute  Result = "no route" // host or network unreachable
	Timeout  Result = "timeout"  // silence
	Reset    Result = "reset"    // after the connection stood
	Failed   Result = "failed"   // the probe itself could not be done
)

// Answer is what came back.
type Answer struct {
	Result  Result         `json:"result"`
	Took    time.Duration  `json:"took"`
	Local   netip.AddrPort `json:"local,omitzero"`
	Status  int            `json:"status,omitempty"`  // HTTP
	Server  string         `json:"server,omitempty"`  // HTTP header Server
	TLS     string         `json:"tls,omitempty"`     // "" = fine or no TLS; else why a strict client would refuse the certificate
	Rcode   string         `json:"rcode,omitempty"`   // DNS
	Name    string         `json:"name,omitempty"`    // DNS: the name that was answered
	Records []string       `json:"records,omitempty"` // DNS: "A 10.96.0.7", sorted
	Error   string         `json:"error,omitempty"`
}

const defaultTimeout = 2 * time.Second

// Do sends the probe; proc is the host's process directory, where Pods are found.
func Do(ctx context.Context, proc string, r Request) Answer {
	if r.Timeout <= 0 {
		r.Timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	dial, done, err := dialer(proc, r)
	if err != nil {
		return Answer{Result: Failed, Error: err.Error()}
	}
	defer done()
	start := time.Now()
	var a Answer
	switch r.Kind {
	case DNS:
		a, err = ask(ctx, r, dial)
	case Conn:
		a, err = connect(ctx, r, dial)
	case HTTP:
		a, err = get(ctx, r, dial)
	default:
		err = fmt.Errorf("probe: kind %q is none of dns, conn, http", r.Kind)
	}
	a.Took = time.Since(start)
	if err != nil {
		a.Result, a.Error = classify(err), err.Error()
	}
	return a
}

// dialFunc connects to a literal address from the right namespace.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func connect(ctx context.Context, r Request, dial dialFunc) (Answer, error) {
	c, err := dial(ctx, "tcp", r.Dst.String())
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	return Answer{Result: Answered, Local: local(c)}, nil
}

func local(c net.Conn) netip.AddrPort {
	switch a := c.LocalAddr().(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// classify names the kind of failure.
func classify(err error) Result {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Reset
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES):
		return NoRoute
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	}
	return Failed
}
