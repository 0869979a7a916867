package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// measurePeer loads, with the same encoder, the shape in which every Service has a chain and a map of its endpoints, and a
// verdict map leads to the chains: what the shape alone costs.
func measurePeer(services, endpoints int) (result, error) {
	var r result
	ctx := context.Background()
	ns, err := netns.New()
	if err != nil {
		return r, err
	}
	defer ns.Close()
	k, err := knft.Open(ns)
	if err != nil {
		return r, err
	}
	defer k.Close()
	t := peerTable(services, endpoints, 0)
	start := time.Now()
	if err := k.Apply(ctx, knft.Create(t)); err != nil {
		return r, err
	}
	r.full = time.Since(start)
	for i := range 20 {
		ops := peerChange(t, i*13%services, endpoints, i+1)
		start := time.Now()
		if err := k.Apply(ctx, ops); err != nil {
			return r, err
		}
		r.changes = append(r.changes, time.Since(start))
	}
	return r, nil
}

func peerTable(services, endpoints, round int) *knft.Table {
	t := knft.NewTable(knft.IPv4, "peer")
	vmap := &knft.Set{Name: "services", Key: []knft.Type{knft.IPv4Addr, knft.Proto, knft.Service}, Verdicts: true, Elems: map[string]string{}}
	t.AddSet(vmap)
	t.AddChain(&knft.Chain{Name: "prerouting", Base: &knft.Base{Type: "nat", Hook: knft.Prerouting, Priority: knft.PriorityDstNAT},
		Rules: []knft.Rule{knft.R(knft.DstAddr(knft.IPv4, 0), knft.L4Proto(1), knft.DstPort(2), knft.VMap("services", 0))}})
	for i := range services {
		chain, set := peerService(i, endpoints, round)
		t.AddChain(chain).AddSet(set)
		vip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		vmap.Elems[knft.Key{}.Addr(vip).Proto(knft.TCP).Port(80).String()] = knft.To(chain.Name).String()
	}
	return t
}

// peerService is the chain of a Service and the map of its endpoints, under a name that changes with every round.
func peerService(i, endpoints, round int) (*knft.Chain, *knft.Set) {
	m := &knft.Set{Name: fmt.Sprintf("map-%d-%d", i, round), Key: []knft.Type{knft.Mark}, Data: []knft.Type{knft.IPv4Addr, knft.Service}, Elems: map[string]string{}}
	for e := range endpoints {
		n := i*endpoints + e + round
		m.Elems[knft.Key{}.Mark(uint32(e)).String()] = knft.Key{}.Addr(netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)})).Port(8080).String()
	}
	rule := knft.R(knft.Numgen{Dst: 0, Mod: uint32(endpoints)}, knft.MapTo(m.Name, 0, 0), knft.NAT{Family: knft.IPv4, AddrReg: 0, HasPort: true, PortReg: 1})
	return &knft.Chain{Name: fmt.Sprintf("svc-%d", i), Rules: []knft.Rule{rule}}, m
}

// peerChange gives a Service a new map and refills its chain, as a map that belongs to its rule must be.
func peerChange(t *knft.Table, i, endpoints, round int) []knft.Op {
	chain, m := peerService(i, endpoints, round)
	var es []knft.Elem
	for k, v := range m.Elems {
		es = append(es, knft.Elem{Key: k, Value: v})
	}
	return []knft.Op{
		{Kind: knft.AddSet, Table: t, Set: m}, {Kind: knft.AddElems, Table: t, Set: m, Elems: es},
		{Kind: knft.FlushChain, Table: t, Chain: chain}, {Kind: knft.AddRules, Table: t, Chain: chain, Rules: chain.Rules},
	}
}
