package scenario

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/nettest"
)

// The DNS server outside the cluster: it knows the names under outside.example, which are all at outsideAddr.
var (
	upstreamAddr = netip.MustParseAddr("203.0.113.53")
	outsideAddr  = netip.MustParseAddr("203.0.113.80")
)

func serveUpstream(h *nettest.Host) (*dns.Server, error) {
	s := &dns.Server{Handler: dns.HandlerFunc(answerOutside)}
	err := h.Do(func() (err error) {
		s.PacketConn, err = net.ListenPacket("udp4", netip.AddrPortFrom(upstreamAddr, 53).String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("scenario: DNS server of the outside: %w", err)
	}
	started := make(chan struct{})
	s.NotifyStartedFunc = func() { close(started) }
	go func() { _ = s.ActivateAndServe() }() // ends with Shutdown
	<-started
	return s, nil
}

func answerOutside(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	switch name := q.Question[0].Name; {
	case !strings.HasSuffix("."+strings.ToLower(name), ".outside.example."):
		m.Rcode = dns.RcodeNameError
	case q.Question[0].Qtype == dns.TypeA:
		h := dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 30}
		m.Answer = []dns.RR{&dns.A{Hdr: h, A: outsideAddr.AsSlice()}}
	}
	_ = w.WriteMsg(m) // a client that is gone asks no more
}
