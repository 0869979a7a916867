package iptables

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/model"
)

// large is a cluster of so many Services with so many endpoints each.
func large(services, endpoints int) *hoptest.Cluster {
	c := hoptest.NewCluster()
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		s := hoptest.Service(name, 1)
		s.ClusterIPs[0] = netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		c.Put(s, hoptest.Slice(name, some(i, endpoints)...))
	}
	return c
}

// some are endpoints of Service number i, on both nodes.
func some(i, n int) (out []model.Endpoint) {
	for e := range n {
		out = append(out, hoptest.Ready(fmt.Sprintf("10.244.%d.%d", e%2+1, (i+e)%250)))
	}
	return out
}

func BenchmarkRender1000x10(b *testing.B) {
	p := proxy.Decide(large(1000, 10).Snapshot(), hoptest.NodeA)
	b.ReportAllocs()
	for b.Loop() {
		Render(p)
	}
}

func BenchmarkScript1000x10(b *testing.B) {
	r := Render(proxy.Decide(large(1000, 10).Snapshot(), hoptest.NodeA))
	e := difference(&kipt.Table{}, r.table(kipt.IPv4, kipt.NAT))
	e.table = kipt.NAT
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(script([]*edit{e}, 512))))
	}
}
