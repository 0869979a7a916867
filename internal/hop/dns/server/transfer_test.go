package server

import (
	"iter"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// fetch is all records of a transfer, or the error of the first message.
func fetch(t *testing.T, addr string, q *dns.Msg) (out []dns.RR, err error) {
	t.Helper()
	in, err := new(dns.Transfer).In(q, addr)
	if err != nil {
		t.Fatal(err)
	}
	for m := range in {
		if m.Error != nil {
			return out, m.Error
		}
		out = append(out, m.RR...)
	}
	return out, nil
}

func TestAZoneIsTransferredToThoseWhoMay(t *testing.T) {
	v := shop(t)
	may := true
	_, addr := start(t, Options{View: func() *answers.View { return v }, Transfer: func(zone string, from netip.AddrPort) (dns.RR, iter.Seq[dns.RR], bool) {
		return v.SOA(), v.Records(), may && zone == "cluster.local." && from.Addr().IsLoopback()
	}})
	want := 0
	for range v.Records() {
		want++
	}
	if want < 800 { // 400 endpoints with their names: more than one message
		t.Fatalf("%d records", want)
	}
	got, err := fetch(t, addr, new(dns.Msg).SetAxfr("Cluster.local."))
	if err != nil || len(got) != want+2 || got[0].Header().Rrtype != dns.TypeSOA || got[len(got)-1].Header().Rrtype != dns.TypeSOA {
		t.Errorf("%d records, want %d between two SOA: %v", len(got), want, err)
	}
	if _, err := fetch(t, addr, new(dns.Msg).SetAxfr("example.com.")); err == nil {
		t.Error("another zone was transferred")
	}
	may = false
	if _, err := fetch(t, addr, new(dns.Msg).SetAxfr("cluster.local.")); err == nil {
		t.Error("transferred to one who may not")
	}
	may = true
	if a := ask(t, "udp", addr, new(dns.Msg).SetAxfr("cluster.local.")); a.Rcode != dns.RcodeRefused {
		t.Errorf("by UDP: %v", a)
	}
}

func TestAClientThatStopsReadingEndsATransfer(t *testing.T) {
	v := shop(t)
	ended := make(chan bool)
	endless := func(yield func(dns.RR) bool) {
		defer close(ended)
		for yield(v.SOA()) {
		}
	}
	s, addr := start(t, Options{View: func() *answers.View { return v }, Transfer: func(string, netip.AddrPort) (dns.RR, iter.Seq[dns.RR], bool) { return v.SOA(), endless, true }})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&dns.Conn{Conn: c}).WriteMsg(new(dns.Msg).SetAxfr("cluster.local.")); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseRead()
	c.Close()
	<-ended
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
