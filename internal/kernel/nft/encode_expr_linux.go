package nft

import (
	"time"

	"golang.org/x/sys/unix"
)

// expr writes one expression as name and data.
func (w *batch) expr(e Expr) {
	elem := w.nest(unix.NFTA_LIST_ELEM)
	w.str(unix.NFTA_EXPR_NAME, exprName(e))
	data := w.nest(unix.NFTA_EXPR_DATA)
	if !w.loadExpr(e) {
		w.actExpr(e)
	}
	w.end(data)
	w.end(elem)
}

func exprName(e Expr) string {
	switch e := e.(type) {
	case Meta, MetaSet:
		return "meta"
	case Payload:
		return "payload"
	case Ct:
		return "ct"
	case Cmp:
		return "cmp"
	case Bitwise:
		return "bitwise"
	case Lookup:
		return "lookup"
	case Immediate, Verdict:
		return "immediate"
	case Numgen:
		return "numgen"
	case Hash:
		return "hash"
	case Fib:
		return "fib"
	case NAT:
		return "nat"
	case Masquerade:
		return "masq"
	case Reject:
		return "reject"
	case Dynset:
		return "dynset"
	case Counter:
		return "counter"
	case Unknown:
		return e.Name
	}
	return "unknown"
}

// loadExpr writes an expression that fills a register.
func (w *batch) loadExpr(e Expr) bool {
	switch e := e.(type) {
	case Meta:
		w.u32(unix.NFTA_META_KEY, uint32(e.Key))
		w.reg(unix.NFTA_META_DREG, e.Dst)
	case Payload:
		w.reg(unix.NFTA_PAYLOAD_DREG, e.Dst)
		w.u32(unix.NFTA_PAYLOAD_BASE, uint32(e.Base))
		w.u32(unix.NFTA_PAYLOAD_OFFSET, uint32(e.Offset))
		w.u32(unix.NFTA_PAYLOAD_LEN, uint32(e.Len))
	case Ct:
		w.u32(unix.NFTA_CT_KEY, uint32(e.Key))
		w.reg(unix.NFTA_CT_DREG, e.Dst)
		if e.Original {
			w.u8(unix.NFTA_CT_DIRECTION, 0)
		}
	case Immediate:
		w.reg(unix.NFTA_IMMEDIATE_DREG, e.Dst)
		w.data(unix.NFTA_IMMEDIATE_DATA, e.Data)
	case Numgen:
		how := uint32(unix.NFT_NG_RANDOM)
		if e.Incremental {
			how = unix.NFT_NG_INCREMENTAL
		}
		w.reg(unix.NFTA_NG_DREG, e.Dst)
		w.u32(unix.NFTA_NG_MODULUS, e.Mod)
		w.u32(unix.NFTA_NG_TYPE, how)
		w.u32(unix.NFTA_NG_OFFSET, e.Offset)
	case Hash:
		w.reg(unix.NFTA_HASH_SREG, e.Src)
		w.reg(unix.NFTA_HASH_DREG, e.Dst)
		w.u32(unix.NFTA_HASH_LEN, uint32(e.Len))
		w.u32(unix.NFTA_HASH_MODULUS, e.Mod)
		w.u32(unix.NFTA_HASH_SEED, e.Seed)
		w.u32(unix.NFTA_HASH_OFFSET, e.Offset)
		w.u32(unix.NFTA_HASH_TYPE, unix.NFT_HASH_JENKINS)
	case Fib:
		flags := uint32(unix.NFTA_FIB_F_DADDR)
		if e.Source {
			flags = unix.NFTA_FIB_F_SADDR
		}
		w.reg(unix.NFTA_FIB_DREG, e.Dst)
		w.u32(unix.NFTA_FIB_RESULT, unix.NFT_FIB_RESULT_ADDRTYPE)
		w.u32(unix.NFTA_FIB_FLAGS, flags)
	case Bitwise:
		w.reg(unix.NFTA_BITWISE_SREG, e.Src)
		w.reg(unix.NFTA_BITWISE_DREG, e.Dst)
		w.u32(unix.NFTA_BITWISE_LEN, uint32(len(e.Mask)))
		w.data(unix.NFTA_BITWISE_MASK, e.Mask)
		w.data(unix.NFTA_BITWISE_XOR, e.Xor)
	case Lookup:
		w.lookup(e)
	default:
		return false
	}
	return true
}

func (w *batch) lookup(e Lookup) {
	w.str(unix.NFTA_LOOKUP_SET, e.Set)
	w.reg(unix.NFTA_LOOKUP_SREG, e.Src)
	switch {
	case e.Verdicts:
		w.u32(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT)
	case e.Map:
		w.reg(unix.NFTA_LOOKUP_DREG, e.Dst)
	}
	if e.Invert {
		w.u32(unix.NFTA_LOOKUP_FLAGS, unix.NFT_LOOKUP_F_INV)
	}
}

// actExpr writes an expression that tests or acts.
func (w *batch) actExpr(e Expr) {
	switch e := e.(type) {
	case MetaSet:
		w.u32(unix.NFTA_META_KEY, uint32(e.Key))
		w.reg(unix.NFTA_META_SREG, e.Src)
	case Cmp:
		w.reg(unix.NFTA_CMP_SREG, e.Src)
		w.u32(unix.NFTA_CMP_OP, uint32(e.Op))
		w.data(unix.NFTA_CMP_DATA, e.Data)
	case Verdict:
		w.u32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		w.verdict(unix.NFTA_IMMEDIATE_DATA, e)
	case NAT:
		kind := uint32(unix.NFT_NAT_DNAT)
		if e.Source {
			kind = unix.NFT_NAT_SNAT
		}
		w.u32(unix.NFTA_NAT_TYPE, kind)
		w.u32(unix.NFTA_NAT_FAMILY, uint32(e.Family))
		w.reg(unix.NFTA_NAT_REG_ADDR_MIN, e.AddrReg)
		if e.HasPort {
			w.reg(unix.NFTA_NAT_REG_PROTO_MIN, e.PortReg)
		}
	case Masquerade:
		if e.FullyRandom {
			w.u32(unix.NFTA_MASQ_FLAGS, natRangeFullyRand)
		}
	case Reject:
		if e.TCPReset {
			w.u32(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_TCP_RST)
		} else {
			w.u32(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMP_UNREACH)
			w.u8(unix.NFTA_REJECT_ICMP_CODE, e.Code)
		}
	case Dynset:
		w.dynset(e)
	}
}

func (w *batch) dynset(e Dynset) {
	w.str(unix.NFTA_DYNSET_SET_NAME, e.Set)
	w.u32(unix.NFTA_DYNSET_OP, uint32(e.Op))
	w.reg(unix.NFTA_DYNSET_SREG_KEY, e.Key)
	if e.Map {
		w.reg(unix.NFTA_DYNSET_SREG_DATA, e.Data)
	}
	if e.Timeout > 0 {
		w.u64(unix.NFTA_DYNSET_TIMEOUT, uint64(e.Timeout/time.Millisecond))
	}
}
