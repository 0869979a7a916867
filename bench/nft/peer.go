package main

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/podway/podway/internal/kernel/netns"
)

// measurePeer loads the shape in which every Service has a chain and an anonymous map of its endpoints, and a verdict map
// leads to the chains. Chains are written a hundred to a transaction, which is kind to it.
func measurePeer(services, endpoints int) (result, error) {
	var r result
	ns, err := netns.New()
	if err != nil {
		return r, err
	}
	defer ns.Close()
	c, err := nftables.New(nftables.WithNetNSFd(ns.Fd()), nftables.AsLasting())
	if err != nil {
		return r, err
	}
	defer c.CloseLasting()
	p := peer{c: c, endpoints: endpoints}
	start := time.Now()
	if err := p.load(services); err != nil {
		return r, err
	}
	r.full = time.Since(start)
	for i := range 20 {
		start := time.Now()
		if err := p.change(i * 13 % services); err != nil {
			return r, err
		}
		r.changes = append(r.changes, time.Since(start))
	}
	return r, nil
}

type peer struct {
	c         *nftables.Conn
	endpoints int
	table     *nftables.Table
	services  *nftables.Set
	chains    []*nftables.Chain
}

func (p *peer) load(services int) error {
	p.table = p.c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "peer"})
	p.services = &nftables.Set{Table: p.table, Name: "services", IsMap: true, Concatenation: true,
		KeyType:  nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService),
		DataType: nftables.TypeVerdict}
	if err := p.c.AddSet(p.services, nil); err != nil {
		return err
	}
	base := p.c.AddChain(&nftables.Chain{Name: "prerouting", Table: p.table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest})
	p.c.AddRule(&nftables.Rule{Table: p.table, Chain: base, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 8, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 9},
		&expr.Payload{DestRegister: 10, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: 8, DestRegister: 0, IsDestRegSet: true, SetName: p.services.Name, SetID: p.services.ID},
	}})
	for i := range services {
		if err := p.add(i); err != nil {
			return err
		}
		if i%100 == 99 {
			if err := p.c.Flush(); err != nil {
				return fmt.Errorf("after %d Services: %w", i+1, err)
			}
		}
	}
	return p.c.Flush()
}

func (p *peer) add(i int) error {
	ch := p.c.AddChain(&nftables.Chain{Name: fmt.Sprintf("svc-%d", i), Table: p.table})
	p.chains = append(p.chains, ch)
	if err := p.rule(i, 0); err != nil {
		return err
	}
	key := append(binary.BigEndian.AppendUint32(nil, 10<<24|96<<16+uint32(i)), 6, 0, 0, 0, 0, 80, 0, 0)
	return p.c.SetAddElements(p.services, []nftables.SetElement{{Key: key,
		VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: ch.Name}}})
}

// rule translates to one of the endpoints: numgen random mod N map { ... }.
func (p *peer) rule(i, round int) error {
	m := &nftables.Set{Table: p.table, Anonymous: true, Constant: true, IsMap: true, Concatenation: true,
		KeyType: nftables.TypeInteger, DataType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)}
	m.KeyType.Bytes = 4
	var elems []nftables.SetElement
	for e := range p.endpoints {
		val := append(binary.BigEndian.AppendUint32(nil, 10<<24|128<<16+uint32(i*p.endpoints+e+round)), 31, 144, 0, 0)
		elems = append(elems, nftables.SetElement{Key: binary.NativeEndian.AppendUint32(nil, uint32(e)), Val: val})
	}
	if err := p.c.AddSet(m, elems); err != nil {
		return err
	}
	p.c.AddRule(&nftables.Rule{Table: p.table, Chain: p.chains[i], Exprs: []expr.Any{
		&expr.Numgen{Register: 8, Modulus: uint32(p.endpoints), Type: 1},
		&expr.Lookup{SourceRegister: 8, DestRegister: 8, IsDestRegSet: true, SetName: m.Name, SetID: m.ID},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: 2, RegAddrMin: 8, RegProtoMin: 9},
	}})
	return nil
}

func (p *peer) change(i int) error {
	p.c.FlushChain(p.chains[i])
	if err := p.rule(i, 1); err != nil {
		return err
	}
	return p.c.Flush()
}
