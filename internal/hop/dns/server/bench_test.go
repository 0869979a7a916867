package server

import (
	"net"
	"testing"

	"github.com/miekg/dns"
)

// BenchmarkQuestion is a whole exchange over loopback, one client at a time: mostly the kernel's cost, on both sides.
func BenchmarkQuestion(b *testing.B) {
	_, addr := start(b, Options{})
	for _, name := range []string{"cart", "nope"} {
		b.Run(name, func(b *testing.B) {
			c, err := net.Dial("udp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			wire, _ := new(dns.Msg).SetQuestion(name+".shop.svc.cluster.local.", dns.TypeA).Pack()
			buf := make([]byte, 512)
			b.ReportAllocs()
			for b.Loop() {
				c.Write(wire)
				if _, err := c.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
