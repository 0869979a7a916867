package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
)

// checkTime is how long the local server may take for a question that it asks itself.
const checkTime = 5 * time.Second

// Programmed implements hop.Hop: what the view being served says, and what a question over the local socket brings.
func (h *Hop) Programmed(ctx context.Context, f flow.Flow) (flow.Verdict, error) {
	if f.DNS == nil {
		return flow.Verdict{Action: flow.Pass, Why: "no question to DNS"}, nil
	}
	addrs := h.firstAddrs()
	if len(addrs) == 0 {
		return h.closed(), nil
	}
	l := h.live.Load()
	v := decide(h.serving.Load().first, l.view, l.from, *f.DNS)
	if v.Name == "" || v.Rcode == "FORMERR" {
		return v, nil
	}
	typ := dns.TypeA
	if f.DNS.Type != "" {
		typ = dns.StringToType[f.DNS.Type]
	}
	m, err := h.ask(ctx, addrs[0], v.Name, typ)
	if err != nil {
		v = flow.Verdict{Action: flow.Dropped, Why: fmt.Sprintf("%s did not answer: %v", addrs[0], err)}
		v.Findings = []flow.Finding{finding(flow.DNSServerDown, h.object(), "The DNS server does not answer its own node.", "observed "+err.Error())}
		return v, nil
	}
	return h.compare(v, m), nil
}

// compare holds what came over the socket against the view. What came counts.
func (h *Hop) compare(v flow.Verdict, m *dns.Msg) flow.Verdict {
	got := flow.Verdict{Action: flow.Answer, Rcode: dns.RcodeToString[m.Rcode], Name: v.Name}
	for _, rr := range m.Answer {
		got.Records = append(got.Records, Record(rr))
	}
	slices.Sort(got.Records)
	if v.Action == flow.Pass { // the world decides; whether it answers is all there is to see
		v.Why += "; answered " + got.String()
		if m.Rcode == dns.RcodeServerFailure {
			v.Findings = append(v.Findings, finding(flow.DNSUpstreamDown, h.object(), "No upstream server answers for "+v.Name, "observed "+got.String()))
		}
		return v
	}
	if v.Rcode == got.Rcode && slices.Equal(v.Records, got.Records) {
		return v
	}
	got.Why = "the socket answers differently from the view: " + v.String()
	got.Findings = []flow.Finding{finding(flow.DNSWrongAnswer, h.object(), "Another process answers on the server's address, or the view has just changed.",
		"programmed "+v.String(), "observed "+got.String())}
	return got
}

func (h *Hop) object() string { return "DNS server of node " + h.o.Node }

// closed is the verdict while nothing is served.
func (h *Hop) closed() flow.Verdict {
	h.mu.Lock()
	err := h.failed
	h.mu.Unlock()
	if err == nil {
		err = errors.New("dns: nothing is served here")
	}
	return flow.Verdict{Action: flow.Refused, Why: err.Error(),
		Findings: []flow.Finding{finding(flow.DNSServerDown, h.object(), "The DNS server does not listen.", "programmed "+err.Error())}}
}

// ask sends one question to the server's own socket, by TCP when the answer does not fit.
func (h *Hop) ask(ctx context.Context, to netip.AddrPort, name string, typ uint16) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), typ)
	q.SetEdns0(1232, false)
	m, err := h.exchange(ctx, "udp", local(to), q)
	if err == nil && m.Truncated {
		return h.exchange(ctx, "tcp", local(to), q)
	}
	return m, err
}

// local is an address by which this machine reaches a socket on to.
func local(to netip.AddrPort) string {
	switch {
	case to.Addr() == netip.IPv4Unspecified():
		to = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port())
	case to.Addr() == netip.IPv6Unspecified():
		to = netip.AddrPortFrom(netip.IPv6Loopback(), to.Port())
	}
	return to.String()
}

func (h *Hop) exchange(ctx context.Context, network, to string, q *dns.Msg) (*dns.Msg, error) {
	var conn net.Conn
	dial := func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, to)
		return err
	}
	in := h.o.In
	if in == nil {
		in = func(f func() error) error { return f() }
	}
	if err := in(dial); err != nil {
		return nil, err
	}
	defer conn.Close()
	c := dns.Client{Net: network, UDPSize: 1232}
	m, _, err := c.ExchangeWithConnContext(ctx, q, &dns.Conn{Conn: conn, UDPSize: 1232})
	return m, err
}
