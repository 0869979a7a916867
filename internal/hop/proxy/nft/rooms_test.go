package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// grow adds Services with endpoints one by one and returns how many applies were full.
func grow(t *testing.T, k knft.Kernel, services, endpoints int) (full int) {
	t.Helper()
	b := New(func() (knft.Kernel, error) { return k, nil })
	planner, c := proxytest.Default().Planner(), hoptest.NewCluster()
	var have *model.Snapshot
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		var eps []model.Endpoint
		for e := range endpoints {
			eps = append(eps, hoptest.Ready(netip.AddrFrom4([4]byte{10, 244, 2, byte(e)}).String()))
		}
		s := hoptest.Service(name, 1, func(s *model.Service) { s.ClusterIPs[0] = netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}) })
		next := c.Put(s, hoptest.Slice(name, eps...)).Snapshot()
		plan, _ := planner.Update(next, model.Diff(have, next))
		done, err := b.Apply(t.Context(), plan)
		if err != nil {
			t.Fatalf("Service %d: %v", i, err)
		}
		if have = next; done.Full {
			full++
		}
		if i%50 != 0 && i != services-1 {
			continue
		}
		got, err := read(t.Context(), k, plan.Node)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equal(Render(plan)) {
			t.Fatalf("after Service %d the tables are not the plan's", i)
		}
	}
	return full
}

func TestASetThatBecomesTooSmallIsMadeAnewWithMoreRoom(t *testing.T) {
	// 300 Services with 20 endpoints are 6,000 elements: room for 2,048, then, with the next Service, for 8,192.
	if full := grow(t, knft.NewFake(), 300, 20); full != 2 {
		t.Errorf("%d applies were full, want the first one and one for more room", full)
	}
}

func TestAListLargerThanTheLeastRoomFits(t *testing.T) {
	if full := grow(t, knft.NewFake(), 30, 250); full > 4 {
		t.Errorf("%d applies were full", full)
	}
}

func TestNodePortsAtLoopbackAreRefusedWithAWord(t *testing.T) {
	fake := knft.NewFake()
	p := proxy.New(proxy.Options{Node: hoptest.NodeA, Settings: proxy.Settings{NodePorts: proxy.NodePortAddresses{Loopback: true}},
		Backend: New(func() (knft.Kernel, error) { return fake, nil })})
	_, err := p.Apply(t.Context(), hoptest.NewCluster().Snapshot(), model.Everything())
	if !errors.Is(err, errors.ErrUnsupported) || len(fake.Tables()) != 0 {
		t.Errorf("got %v and %d tables", err, len(fake.Tables()))
	}
}
