package server

import (
	"net"
	"syscall"
	"testing"

	"github.com/miekg/dns"
)

// window is how many questions are on their way at a time.
const window = 32

// flood asks the same question b.N times over one socket and waits for all answers.
func flood(b *testing.B, addr string, q *dns.Msg) {
	c, err := net.Dial("udp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	wire, _ := q.Pack()
	buf := make([]byte, 512)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for i := range b.N + window {
		if i < b.N {
			c.Write(wire)
		}
		if i >= window {
			if _, err := c.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the processor time of this process, client and server, user and kernel: unlike the clock's it does not depend on
// what else the machine does.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkQuestion is a whole exchange over loopback, client included: mostly the kernel's cost, on both sides.
func BenchmarkQuestion(b *testing.B) {
	_, addr := start(b, Options{})
	for _, name := range []string{"cart", "nope"} {
		b.Run(name, func(b *testing.B) {
			flood(b, addr, new(dns.Msg).SetQuestion(name+".shop.svc.cluster.local.", dns.TypeA))
		})
	}
}

// BenchmarkPeer is the same exchange with a miekg/dns server that knows only this one answer.
func BenchmarkPeer(b *testing.B) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	rr, _ := dns.NewRR("cart.shop.svc.cluster.local. 5 IN A 10.96.0.7")
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg).SetReply(q)
		a.Answer = []dns.RR{rr}
		w.WriteMsg(a)
	})}
	go s.ActivateAndServe()
	defer s.Shutdown()
	flood(b, pc.LocalAddr().String(), new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA))
}
