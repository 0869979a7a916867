package nft

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// valueOf reads the bytes that the kernel nests in NFTA_DATA_VALUE, without a map for each.
func valueOf(b []byte) []byte {
	var out []byte
	attrs(b, func(t uint16, v []byte) {
		if t == unix.NFTA_DATA_VALUE {
			out = v
		}
	})
	return out
}

func padded(b []byte) string {
	if n := len(b) % 4; n != 0 {
		return string(b) + "\x00\x00\x00"[:4-n]
	}
	return string(b)
}

func verdictOf(b []byte) Verdict {
	v := tree(tree(b)[unix.NFTA_DATA_VERDICT])
	return Verdict{Kind: VerdictKind(be32(v[unix.NFTA_VERDICT_CODE])), Chain: cstr(v[unix.NFTA_VERDICT_CHAIN])}
}

// decodeElem puts an element into the set. For the end of an interval of one field it returns the key instead.
func (s *Set) decodeElem(b []byte) (end string) {
	var key, keyEnd, value string
	flags := uint32(0)
	attrs(b, func(t uint16, v []byte) {
		switch t {
		case unix.NFTA_SET_ELEM_KEY:
			key = padded(valueOf(v))
		case attrElemKeyEnd:
			keyEnd = padded(valueOf(v))
		case unix.NFTA_SET_ELEM_FLAGS:
			flags = be32(v)
		case unix.NFTA_SET_ELEM_DATA:
			if s.Verdicts {
				value = verdictOf(v).String()
			} else {
				value = padded(valueOf(v))
			}
		}
	})
	if flags&unix.NFT_SET_ELEM_INTERVAL_END != 0 {
		return key
	}
	if s.Interval && len(s.Key) > 1 {
		if keyEnd == "" {
			keyEnd = key
		}
		key += keyEnd
	}
	s.Elems[key] = value
	return ""
}

// pair joins the beginnings in the set with the ends found beside them.
func (s *Set) pair(ends []string) {
	slices.Sort(ends)
	n := wire(s.Key)
	from := make([]string, 0, len(s.Elems))
	for k := range s.Elems {
		from = append(from, k)
	}
	slices.Sort(from)
	out := make(map[string]string, len(from))
	for _, k := range from {
		i, _ := slices.BinarySearchFunc(ends, k, func(e, k string) int {
			if e <= k {
				return -1
			}
			return 1
		})
		last := strings.Repeat("\xff", n)
		if i < len(ends) {
			last, _ = predecessor(ends[i][:n])
		}
		out[k+padded([]byte(last))] = s.Elems[k]
	}
	s.Elems = out
}

// register reads a register number: the kernel tells aligned ones by their old 16-byte numbers.
func register(b []byte) Reg {
	if n := be32(b); n < unix.NFT_REG32_00 {
		return Reg((n - 1) * 4)
	} else {
		return Reg(n - unix.NFT_REG32_00)
	}
}

func decodeExpr(b []byte) Expr {
	a := tree(b)
	name, data := cstr(a[unix.NFTA_EXPR_NAME]), a[unix.NFTA_EXPR_DATA]
	d := tree(data)
	if e := decodeLoad(name, d); e != nil {
		return e
	}
	if e := decodeAct(name, d); e != nil {
		return e
	}
	return Unknown{Name: name, Data: string(data)}
}

func decodeLoad(name string, d map[uint16][]byte) Expr {
	switch name {
	case "payload":
		if d[unix.NFTA_PAYLOAD_DREG] == nil {
			return nil
		}
		return Payload{PayloadBase(be32(d[unix.NFTA_PAYLOAD_BASE])), uint8(be32(d[unix.NFTA_PAYLOAD_OFFSET])),
			uint8(be32(d[unix.NFTA_PAYLOAD_LEN])), register(d[unix.NFTA_PAYLOAD_DREG])}
	case "meta":
		if d[unix.NFTA_META_SREG] != nil {
			return MetaSet{MetaKey(be32(d[unix.NFTA_META_KEY])), register(d[unix.NFTA_META_SREG])}
		}
		return Meta{MetaKey(be32(d[unix.NFTA_META_KEY])), register(d[unix.NFTA_META_DREG])}
	case "ct":
		dir := d[unix.NFTA_CT_DIRECTION]
		if d[unix.NFTA_CT_DREG] == nil || len(dir) > 0 && dir[0] != 0 {
			return nil
		}
		return Ct{CtKey(be32(d[unix.NFTA_CT_KEY])), len(dir) > 0, register(d[unix.NFTA_CT_DREG])}
	case "numgen":
		return Numgen{register(d[unix.NFTA_NG_DREG]), be32(d[unix.NFTA_NG_MODULUS]), be32(d[unix.NFTA_NG_OFFSET]),
			be32(d[unix.NFTA_NG_TYPE]) == unix.NFT_NG_INCREMENTAL}
	case "hash":
		if be32(d[unix.NFTA_HASH_TYPE]) != unix.NFT_HASH_JENKINS {
			return nil
		}
		return Hash{register(d[unix.NFTA_HASH_DREG]), register(d[unix.NFTA_HASH_SREG]), uint8(be32(d[unix.NFTA_HASH_LEN])),
			be32(d[unix.NFTA_HASH_SEED]), be32(d[unix.NFTA_HASH_MODULUS]), be32(d[unix.NFTA_HASH_OFFSET])}
	case "fib":
		flags := be32(d[unix.NFTA_FIB_FLAGS])
		if be32(d[unix.NFTA_FIB_RESULT]) != unix.NFT_FIB_RESULT_ADDRTYPE || flags&^3 != 0 {
			return nil
		}
		return Fib{flags&unix.NFTA_FIB_F_SADDR != 0, register(d[unix.NFTA_FIB_DREG])}
	case "bitwise":
		if d[unix.NFTA_BITWISE_MASK] == nil {
			return nil
		}
		return Bitwise{register(d[unix.NFTA_BITWISE_SREG]), register(d[unix.NFTA_BITWISE_DREG]),
			string(valueOf(d[unix.NFTA_BITWISE_MASK])), string(valueOf(d[unix.NFTA_BITWISE_XOR]))}
	case "lookup":
		return decodeLookup(d)
	case "immediate":
		if be32(d[unix.NFTA_IMMEDIATE_DREG]) == unix.NFT_REG_VERDICT {
			return verdictOf(d[unix.NFTA_IMMEDIATE_DATA])
		}
		return Immediate{register(d[unix.NFTA_IMMEDIATE_DREG]), string(valueOf(d[unix.NFTA_IMMEDIATE_DATA]))}
	}
	return nil
}

func decodeLookup(d map[uint16][]byte) Expr {
	l := Lookup{Set: cstr(d[unix.NFTA_LOOKUP_SET]), Src: register(d[unix.NFTA_LOOKUP_SREG]),
		Invert: be32(d[unix.NFTA_LOOKUP_FLAGS])&unix.NFT_LOOKUP_F_INV != 0}
	if dreg := d[unix.NFTA_LOOKUP_DREG]; dreg != nil {
		l.Map = true
		if l.Verdicts = be32(dreg) == unix.NFT_REG_VERDICT; !l.Verdicts {
			l.Dst = register(dreg)
		}
	}
	return l
}

func decodeAct(name string, d map[uint16][]byte) Expr {
	switch name {
	case "cmp":
		return Cmp{CmpOp(be32(d[unix.NFTA_CMP_OP])), register(d[unix.NFTA_CMP_SREG]), string(valueOf(d[unix.NFTA_CMP_DATA]))}
	case "nat":
		n := NAT{Source: be32(d[unix.NFTA_NAT_TYPE]) == unix.NFT_NAT_SNAT, Family: Family(be32(d[unix.NFTA_NAT_FAMILY])),
			AddrReg: register(d[unix.NFTA_NAT_REG_ADDR_MIN])}
		if p := d[unix.NFTA_NAT_REG_PROTO_MIN]; p != nil {
			n.HasPort, n.PortReg = true, register(p)
		}
		if d[unix.NFTA_NAT_REG_ADDR_MIN] == nil || be32(d[unix.NFTA_NAT_FLAGS])&^3 != 0 {
			return nil // no address, or flags that are never written here
		}
		return n
	case "masq":
		flags := be32(d[unix.NFTA_MASQ_FLAGS])
		if flags&^natRangeFullyRand != 0 || d[unix.NFTA_MASQ_REG_PROTO_MIN] != nil {
			return nil
		}
		return Masquerade{FullyRandom: flags != 0}
	case "reject":
		switch be32(d[unix.NFTA_REJECT_TYPE]) {
		case unix.NFT_REJECT_TCP_RST:
			return Reject{TCPReset: true}
		case unix.NFT_REJECT_ICMP_UNREACH:
			if c := d[unix.NFTA_REJECT_ICMP_CODE]; len(c) > 0 {
				return Reject{Code: c[0]}
			}
		}
		return nil
	case "dynset":
		return decodeDynset(d)
	case "counter":
		return Counter{}
	}
	return nil
}

func decodeDynset(d map[uint16][]byte) Expr {
	e := Dynset{Set: cstr(d[unix.NFTA_DYNSET_SET_NAME]), Op: DynOp(be32(d[unix.NFTA_DYNSET_OP])),
		Key:     register(d[unix.NFTA_DYNSET_SREG_KEY]),
		Timeout: time.Duration(be64(d[unix.NFTA_DYNSET_TIMEOUT])) * time.Millisecond}
	if r := d[unix.NFTA_DYNSET_SREG_DATA]; r != nil {
		e.Map, e.Data = true, register(r)
	}
	return e
}
