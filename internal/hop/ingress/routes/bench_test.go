package routes

import (
	"fmt"
	"testing"

	"github.com/podway/podway/internal/model"
)

// bigCluster has an Ingress, a Service and an EndpointSlice for each of n hosts, with four paths each.
func bigCluster(n int) *model.Snapshot {
	objs := make([]any, 0, 3*n)
	for i := range n {
		name := fmt.Sprint("app-", i)
		host := fmt.Sprintf("app-%d.example", i)
		to := " Prefix " + name + ":http"
		objs = append(objs, svc(name), slice(name, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)),
			ing(name, host+" /"+to, host+" /api"+to, host+" /api/v1/users"+to, host+" /static Exact "+name+":http"))
	}
	return cluster(objs...)
}

func BenchmarkLookupAmong10000Hosts(b *testing.B) {
	tab := Build(Config{}, bigCluster(10000))
	hosts := make([]string, 1024)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("app-%d.example", i*9)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if m, _, _ := tab.Resolve(hosts[i&1023], "/api/v1/users/7/orders"); m.Backend == nil {
			b.Fatal("no route")
		}
	}
}

func BenchmarkEndpointChangeAmong10000Hosts(b *testing.B) {
	build := model.NewBuilder(bigCluster(10000))
	at := build.Snapshot(epoch)
	tab := Build(Config{}, at)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		build.Put(slice(fmt.Sprint("app-", i%10000), fmt.Sprintf("10.9.%d.%d", i>>8&255, i&255)))
		next := build.Snapshot(epoch)
		tab = tab.Update(next, model.Diff(at, next))
		at = next
	}
}

func BenchmarkIngressChangeAmong10000Hosts(b *testing.B) {
	build := model.NewBuilder(bigCluster(10000))
	at := build.Snapshot(epoch)
	tab := Build(Config{}, at)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprint("app-", i%10000)
		build.Put(ing(name, fmt.Sprintf("app-%d.example / Prefix %s:http", i%10000, name)))
		next := build.Snapshot(epoch)
		tab = tab.Update(next, model.Diff(at, next))
		at = next
	}
}

func BenchmarkBuild10000Hosts(b *testing.B) {
	s := bigCluster(10000)
	for b.Loop() {
		Build(Config{}, s)
	}
}

func BenchmarkOneOf1000EndpointsLeaves(b *testing.B) {
	addrs := make([]string, 1000)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("10.1.%d.%d", i>>8, i&255)
	}
	build := model.NewBuilder(bigCluster(1000))
	build.Put(slice("app-7", addrs...))
	at := build.Snapshot(epoch)
	tab := Build(Config{}, at)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		build.Put(slice("app-7", addrs[i%2:]...))
		next := build.Snapshot(epoch)
		tab = tab.Update(next, model.Diff(at, next))
		at = next
	}
}

func BenchmarkLookupOfOneHost(b *testing.B) {
	tab := Build(Config{}, bigCluster(100))
	for b.Loop() {
		if m, _, _ := tab.Resolve("app-7.example", "/api/v1/users/7/orders"); m.Backend == nil {
			b.Fatal("no route")
		}
	}
}
