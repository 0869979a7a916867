package route

import (
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/kernel/link"
)

func TestAMonitorTellsOfEveryChangeOnce(t *testing.T) {
	k, links, ns := worldIn(t)
	m, err := OpenMonitor(ns)
	must(t, err)
	defer m.Close()
	must(t, links.AwaitRunning("eth0", 5e9))
	changed := func() bool {
		t.Helper()
		c, err := m.Changed()
		must(t, err)
		return c
	}
	for changed() { // what is still settling
	}
	tun := link.Link{Name: "tun0", Kind: link.KindVXLAN, MAC: link.MAC{2, 9}, MTU: 1400, Up: true, VXLAN: &link.VXLAN{VNI: 5, Port: 4999, Local: a("10.8.0.1")}}
	changes := map[string]func() error{
		"a route":    func() error { return k.Put(wanted()[0]) },
		"an address": func() error { return links.AddAddr("eth0", netip.MustParsePrefix("10.9.0.1/24")) },
		"an MTU":     func() error { return links.Put(tun) },
		"a neighbour": func() error {
			return k.PutNeighbour(Neighbour{Device: "tun0", Addr: a("10.244.9.1"), MAC: link.MAC{2, 0, 0, 0, 0, 7}})
		},
		"a forwarding entry": func() error {
			return k.PutNeighbour(Neighbour{Device: "tun0", Addr: a("10.8.0.9"), MAC: link.MAC{2, 0, 0, 0, 0, 7}, FDB: true})
		},
		"a device gone": func() error { return links.Delete("eth1") },
	}
	for _, name := range []string{"a route", "an address", "an MTU", "a neighbour", "a forwarding entry", "a device gone"} {
		must(t, changes[name]())
		if !changed() {
			t.Errorf("%s: not told", name)
		}
		for changed() {
		}
	}
	if changed() {
		t.Error("told of nothing")
	}
}
