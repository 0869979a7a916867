package nft

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// large is the plan of 10,000 Services with 10 endpoints each.
func large() *proxy.Plan {
	c := hoptest.NewCluster()
	for i := range 10000 {
		name := fmt.Sprintf("s%d", i)
		s := hoptest.Service(name, 1)
		s.ClusterIPs[0] = netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})
		var eps []model.Endpoint
		for e := range 10 {
			eps = append(eps, hoptest.Ready(fmt.Sprintf("10.244.%d.%d", e%2+1, (i+e)%250)))
		}
		c.Put(s, hoptest.Slice(name, eps...))
	}
	return proxy.Decide(c.Snapshot(), hoptest.NodeA)
}

func BenchmarkRender10000(b *testing.B) {
	p := large()
	b.ReportAllocs()
	for b.Loop() {
		Render(p)
	}
}

func BenchmarkCreate10000(b *testing.B) {
	t := Render(large()).tables[0]
	b.ReportAllocs()
	for b.Loop() {
		knft.Create(t)
	}
}
