package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/bench/dnspeer"
)

// zone holds all names of the measurement.
const zone = "bench.example."

// kinds say what a name leads to, by its number: for each of ten one letter. a: one address; m: four; c: a CNAME and one
// address; v: an IPv6 address; n: the name does not exist.
const kinds = "aaaammcvvn"

const kindsText = "40% A with one address, 20% with four, 10% CNAME and A, 20% AAAA, 10% NXDOMAIN"

func nameOf(i int) string { return fmt.Sprintf("%c%05d.%s", kinds[i%len(kinds)], i, zone) }

func questionOf(i int) dnspeer.Question {
	q := dnspeer.Question{Name: nameOf(i), Type: dns.TypeA, Answers: 1}
	switch kinds[i%len(kinds)] {
	case 'm':
		q.Answers = 4
	case 'c':
		q.Answers = 2
	case 'v':
		q.Type = dns.TypeAAAA
	case 'n':
		q.Rcode, q.Answers = dns.RcodeNameError, 0
	}
	return q
}

// each is every name once, and again from the start until there are as many as there are IDs.
func each(names int) []dnspeer.Question {
	out := make([]dnspeer.Question, dnspeer.Ask)
	for i := range out {
		out[i] = questionOf(i % names)
	}
	return out
}

// uniform asks for all names equally often, zipf for few of them most of the time.
func uniform(names int) []dnspeer.Question {
	r := rand.New(rand.NewPCG(1, 53))
	out := make([]dnspeer.Question, dnspeer.Ask)
	for i := range out {
		out[i] = questionOf(r.IntN(names))
	}
	return out
}

func zipf(names int) []dnspeer.Question {
	r := rand.New(rand.NewPCG(2, 53))
	z := rand.NewZipf(r, 1.1, 1, uint64(names-1))
	out := make([]dnspeer.Question, dnspeer.Ask)
	for i := range out {
		out[i] = questionOf(int(z.Uint64()))
	}
	return out
}

// serveWorld is the authoritative server of the zone, until ctx ends.
func serveWorld(ctx context.Context) (netip.AddrPort, error) {
	addr, err := dnspeer.FreePort()
	if err != nil {
		return addr, err
	}
	pc, err := net.ListenPacket("udp", addr.String())
	if err != nil {
		return addr, err
	}
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		pc.Close()
		return addr, err
	}
	context.AfterFunc(ctx, func() { pc.Close(); l.Close() })
	go func() { _ = (&dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(answer)}).ActivateAndServe() }()
	go func() { _ = (&dns.Server{Listener: l, Handler: dns.HandlerFunc(answer)}).ActivateAndServe() }()
	return addr, nil
}

func answer(w dns.ResponseWriter, q *dns.Msg) {
	a := new(dns.Msg).SetReply(q)
	a.Authoritative, a.RecursionAvailable = true, true
	name, typ := strings.ToLower(q.Question[0].Name), q.Question[0].Qtype
	head := func(name string, typ uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: typ, Class: dns.ClassINET, Ttl: 3600}
	}
	address := func(name string, last byte) dns.RR {
		return &dns.A{Hdr: head(name, dns.TypeA), A: netip.AddrFrom4([4]byte{192, 0, 2, last}).AsSlice()}
	}
	kind := byte('n')
	if strings.HasSuffix(name, "."+zone) {
		kind = name[0]
	}
	switch {
	case kind == 'a' && typ == dns.TypeA:
		a.Answer = []dns.RR{address(name, 1)}
	case kind == 'm' && typ == dns.TypeA:
		a.Answer = []dns.RR{address(name, 1), address(name, 2), address(name, 3), address(name, 4)}
	case kind == 'c' && typ == dns.TypeA:
		target := "a-target." + zone
		a.Answer = []dns.RR{&dns.CNAME{Hdr: head(name, dns.TypeCNAME), Target: target}, address(target, 1)}
	case kind == 'v' && typ == dns.TypeAAAA:
		a.Answer = []dns.RR{&dns.AAAA{Hdr: head(name, dns.TypeAAAA), AAAA: netip.MustParseAddr("2001:db8::1").AsSlice()}}
	default:
		a.Ns = []dns.RR{&dns.SOA{Hdr: head(zone, dns.TypeSOA), Ns: "ns." + zone, Mbox: "hostmaster." + zone, Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: 3600}}
		if kind == 'n' {
			a.Rcode = dns.RcodeNameError
		}
	}
	if opt := q.IsEdns0(); opt != nil {
		a.SetEdns0(1232, opt.Do())
	}
	_ = w.WriteMsg(a)
}
