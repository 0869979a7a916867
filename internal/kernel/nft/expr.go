package nft

import "time"

// Expr is one expression of a rule. Expressions work on 16 registers of 4 bytes; a field of n bytes takes the registers
// from Reg on, padded. All are comparable values.
type Expr interface{ isExpr() }

// Reg is a register, 0 to 15.
type Reg uint8

// MetaKey says what Meta loads, with the kernel's numbers.
type MetaKey uint8

// The meta keys.
const (
	MetaMark    MetaKey = 3
	MetaIIFName MetaKey = 6
	MetaOIFName MetaKey = 7
	MetaNFProto MetaKey = 15
	MetaL4Proto MetaKey = 16
)

// Meta loads something about the packet.
type Meta struct {
	Key MetaKey
	Dst Reg
}

// MetaSet writes the packet's mark from a register.
type MetaSet struct {
	Key MetaKey
	Src Reg
}

// PayloadBase is the header that Payload reads.
type PayloadBase uint8

// The headers.
const (
	Network   PayloadBase = 1
	Transport PayloadBase = 2
)

// Payload loads bytes of a header.
type Payload struct {
	Base        PayloadBase
	Offset, Len uint8
	Dst         Reg
}

// CtKey says what Ct loads, with the kernel's numbers.
type CtKey uint8

// The connection tracking keys. CtDstIP and CtDstIP6 and CtProtoDst need a direction.
const (
	CtState    CtKey = 0
	CtStatus   CtKey = 2
	CtMark     CtKey = 3
	CtProtoDst CtKey = 12
	CtDstIP    CtKey = 20
	CtDstIP6   CtKey = 22
)

// Bits of ct state and ct status.
const (
	StateInvalid     uint32 = 1
	StateEstablished uint32 = 2
	StateRelated     uint32 = 4
	StateNew         uint32 = 8
	StatusDNAT       uint32 = 1 << 5
)

// Ct loads something about the connection; Original means the direction of its first packet, before any translation.
type Ct struct {
	Key      CtKey
	Original bool
	Dst      Reg
}

// CmpOp is a comparison, with the kernel's numbers.
type CmpOp uint8

// The comparisons.
const (
	Eq CmpOp = iota
	Neq
	Lt
	Lte
	Gt
	Gte
)

// Cmp goes on if the register compares so to Data (bytes in network order).
type Cmp struct {
	Op   CmpOp
	Src  Reg
	Data string
}

// Bitwise computes Dst = Src & Mask ^ Xor.
type Bitwise struct {
	Src, Dst  Reg
	Mask, Xor string
}

// Lookup goes on if the key that starts at Src is in the set, or with Invert if it is not. With Map it also loads the
// data from Dst on; a verdict map's verdict is carried out.
type Lookup struct {
	Set      string
	Src      Reg
	Invert   bool
	Map      bool
	Dst      Reg
	Verdicts bool
}

// Immediate loads constant bytes.
type Immediate struct {
	Dst  Reg
	Data string
}

// VerdictKind is what Verdict does, with the kernel's numbers.
type VerdictKind int32

// The verdicts.
const (
	Drop   VerdictKind = 0
	Accept VerdictKind = 1
	Jump   VerdictKind = -3
	Goto   VerdictKind = -4
	Return VerdictKind = -5
)

// Verdict ends the rule: it accepts, drops, returns or goes to another chain.
type Verdict struct {
	Kind  VerdictKind
	Chain string
}

// Numgen loads a number from Offset to Offset+Mod-1 in the host's byte order: random, or one after the other.
type Numgen struct {
	Dst         Reg
	Mod, Offset uint32
	Incremental bool
}

// Hash loads a number from Offset to Offset+Mod-1 in the host's byte order: JHash of the Len bytes at Src, scaled.
type Hash struct {
	Dst, Src    Reg
	Len         uint8
	Seed        uint32
	Mod, Offset uint32
}

// Fib loads the type of the packet's source or destination address: AddrTypeLocal and so on.
type Fib struct {
	Source bool
	Dst    Reg
}

// Address types (RTN_*).
const (
	AddrTypeUnicast   uint32 = 1
	AddrTypeLocal     uint32 = 2
	AddrTypeBroadcast uint32 = 3
	AddrTypeMulticast uint32 = 5
)

// NAT rewrites the destination, or with Source the source, to the address at AddrReg and, when HasPort is set, the port
// at PortReg.
type NAT struct {
	Source  bool
	Family  Family
	AddrReg Reg
	HasPort bool
	PortReg Reg
}

// Masquerade gives the packet the address of the device it leaves by, and with FullyRandom a random free port.
type Masquerade struct{ FullyRandom bool }

// Reject answers with a TCP reset or with an ICMP message of Code, and drops the packet.
type Reject struct {
	TCPReset bool
	Code     uint8
}

// The codes of "port unreachable".
const (
	PortUnreachable4 uint8 = 3
	PortUnreachable6 uint8 = 4
)

// DynOp is what Dynset does, with the kernel's numbers.
type DynOp uint8

// The operations on dynamic sets. None changes the data of a key that is there: delete it first.
const (
	DynAdd    DynOp = 0 // does nothing when the key is there
	DynUpdate DynOp = 1 // restarts its life when it is there
	DynDelete DynOp = 2 // Linux 5.3
)

// Dynset adds the key at Key to a dynamic set, a map with the data at Data, or deletes it. The kernel wants the data of a
// map named for a deletion too, and does not look at it.
type Dynset struct {
	Set     string
	Op      DynOp
	Key     Reg
	Map     bool
	Data    Reg
	Timeout time.Duration // 0 = the set's
}

// Counter counts packets and bytes; the figures are not part of the rule.
type Counter struct{}

// Unknown is an expression that this package does not write: what Read finds in a table that somebody else changed.
type Unknown struct{ Name, Data string }

func (Meta) isExpr()       {}
func (MetaSet) isExpr()    {}
func (Payload) isExpr()    {}
func (Ct) isExpr()         {}
func (Cmp) isExpr()        {}
func (Bitwise) isExpr()    {}
func (Lookup) isExpr()     {}
func (Immediate) isExpr()  {}
func (Verdict) isExpr()    {}
func (Numgen) isExpr()     {}
func (Hash) isExpr()       {}
func (Fib) isExpr()        {}
func (NAT) isExpr()        {}
func (Masquerade) isExpr() {}
func (Reject) isExpr()     {}
func (Dynset) isExpr()     {}
func (Counter) isExpr()    {}
func (Unknown) isExpr()    {}
