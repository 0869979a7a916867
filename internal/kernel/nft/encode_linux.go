package nft

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// chunk is how many bytes of elements go into one message: the list is one attribute, whose length has 16 bits.
const chunk = 60000

// Attribute numbers that x/sys/unix does not have.
const (
	attrTableUserdata = 6
	attrSetDescConcat = 2
	attrSetFieldLen   = 1
	attrElemKeyEnd    = 10
	flagSetConcat     = 0x80
	natRangeFullyRand = 1 << 4
	msgNFT            = unix.NFNL_SUBSYS_NFTABLES << 8
	udataTableComment = 0
	udataRuleComment  = 0
)

// batch is a transaction being written.
type batch struct {
	buffer
	seq  uint32
	ops  []Op
	of   []int // message number -> operation
	last int   // where the last message begins
	op   int
}

// encode writes a whole transaction. Only its last operation asks for an acknowledgement: the kernel sends it after the
// commit, and an error at any time.
func encode(ops []Op, seq uint32) *batch {
	w := &batch{seq: seq, ops: ops}
	w.b = make([]byte, 0, sizeOf(ops))
	at := w.message(unix.NFNL_MSG_BATCH_BEGIN, 0, w.next(-1), 0, unix.NFNL_SUBSYS_NFTABLES)
	w.done(at)
	for i, op := range ops {
		w.op = i
		w.encode(op)
	}
	flags := w.b[w.last+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK)
	at = w.message(unix.NFNL_MSG_BATCH_END, 0, w.next(-1), 0, unix.NFNL_SUBSYS_NFTABLES)
	w.done(at)
	return w
}

func sizeOf(ops []Op) int {
	n := 4096
	for _, op := range ops {
		for _, e := range op.Elems {
			n += 24 + len(e.Key) + len(e.Value)
		}
		n += 512 * (1 + len(op.Rules))
	}
	return n
}

func (w *batch) next(op int) uint32 {
	w.of = append(w.of, op)
	return w.seq + uint32(len(w.of)) - 1
}

// operation returns which operation a sequence number belongs to, or -1.
func (w *batch) operation(seq uint32) int {
	if i := int(seq - w.seq); i >= 0 && i < len(w.of) {
		return w.of[i]
	}
	return -1
}

func (w *batch) begin(typ, flags uint16, t *Table) int {
	w.last = w.message(msgNFT|typ, flags, w.next(w.op), uint8(t.Family), 0)
	return w.last
}

func (w *batch) encode(op Op) {
	switch op.Kind {
	case AddTable, DelTable:
		w.tableOp(op)
	case AddChain, DelChain, FlushChain:
		w.chainOp(op)
	case AddRules:
		for _, r := range op.Rules {
			w.rule(op.Table, op.Chain.Name, r)
		}
	case AddSet:
		w.addSet(op.Table, op.Set)
	case DelSet:
		at := w.begin(unix.NFT_MSG_DELSET, 0, op.Table)
		w.str(unix.NFTA_SET_TABLE, op.Table.Name)
		w.str(unix.NFTA_SET_NAME, op.Set.Name)
		w.done(at)
	case AddElems:
		w.elems(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, op)
	case DelElems:
		w.elems(unix.NFT_MSG_DELSETELEM, 0, op)
	}
}

func (w *batch) tableOp(op Op) {
	typ := uint16(unix.NFT_MSG_NEWTABLE)
	if op.Kind == DelTable { // make it first: then deleting it cannot fail
		at := w.begin(typ, unix.NLM_F_CREATE, op.Table)
		w.str(unix.NFTA_TABLE_NAME, op.Table.Name)
		w.done(at)
		typ = unix.NFT_MSG_DELTABLE
	}
	at := w.begin(typ, unix.NLM_F_CREATE, op.Table)
	w.str(unix.NFTA_TABLE_NAME, op.Table.Name)
	if op.Kind == AddTable && op.Table.Comment != "" {
		w.comment(attrTableUserdata, udataTableComment, op.Table.Comment)
	}
	w.done(at)
}

// comment is user data as libnftnl writes it: type, length, text with its final zero.
func (w *batch) comment(attr uint16, typ byte, s string) {
	s = s[:min(len(s), 128)]
	w.bytes(attr, string([]byte{typ, byte(len(s) + 1)})+s+"\x00")
}

func (w *batch) chainOp(op Op) {
	t, c := op.Table, op.Chain
	if op.Kind == FlushChain {
		at := w.begin(unix.NFT_MSG_DELRULE, 0, t)
		w.str(unix.NFTA_RULE_TABLE, t.Name)
		w.str(unix.NFTA_RULE_CHAIN, c.Name)
		w.done(at)
		return
	}
	typ, flags := uint16(unix.NFT_MSG_NEWCHAIN), uint16(unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	if op.Kind == DelChain {
		typ, flags = unix.NFT_MSG_DELCHAIN, 0
	}
	at := w.begin(typ, flags, t)
	w.str(unix.NFTA_CHAIN_TABLE, t.Name)
	w.str(unix.NFTA_CHAIN_NAME, c.Name)
	if c.Base != nil && op.Kind == AddChain {
		hook := w.nest(unix.NFTA_CHAIN_HOOK)
		w.u32(unix.NFTA_HOOK_HOOKNUM, uint32(c.Base.Hook))
		w.u32(unix.NFTA_HOOK_PRIORITY, uint32(c.Base.Priority))
		w.end(hook)
		policy := uint32(1)
		if c.Base.Drop {
			policy = 0
		}
		w.u32(unix.NFTA_CHAIN_POLICY, policy)
		w.str(unix.NFTA_CHAIN_TYPE, c.Base.Type)
	}
	w.done(at)
}

func (w *batch) rule(t *Table, chain string, r Rule) {
	at := w.begin(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, t)
	w.str(unix.NFTA_RULE_TABLE, t.Name)
	w.str(unix.NFTA_RULE_CHAIN, chain)
	list := w.nest(unix.NFTA_RULE_EXPRESSIONS)
	for _, e := range r.Exprs {
		w.expr(e)
	}
	w.end(list)
	if r.Comment != "" {
		w.comment(unix.NFTA_RULE_USERDATA, udataRuleComment, r.Comment)
	}
	w.done(at)
}

// typeID packs the types of a concatenation as the nft command does, 6 bits each.
func typeID(ts []Type) uint32 {
	id := uint32(0)
	for _, t := range ts {
		id = id<<6 | uint32(t)
	}
	return id
}

func (s *Set) flags() uint32 {
	f := uint32(0)
	if s.IsMap() {
		f |= unix.NFT_SET_MAP
	}
	if s.Interval {
		f |= unix.NFT_SET_INTERVAL
		if len(s.Key) > 1 {
			f |= flagSetConcat
		}
	}
	if s.Dynamic {
		f |= unix.NFT_SET_EVAL | unix.NFT_SET_TIMEOUT
	}
	return f
}

func (w *batch) addSet(t *Table, s *Set) {
	at := w.begin(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE|unix.NLM_F_EXCL, t)
	w.str(unix.NFTA_SET_TABLE, t.Name)
	w.str(unix.NFTA_SET_NAME, s.Name)
	w.u32(unix.NFTA_SET_ID, uint32(len(w.of)))
	w.u32(unix.NFTA_SET_FLAGS, s.flags())
	w.u32(unix.NFTA_SET_KEY_TYPE, typeID(s.Key))
	w.u32(unix.NFTA_SET_KEY_LEN, uint32(wire(s.Key)))
	if s.Verdicts {
		w.u32(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT)
	} else if len(s.Data) > 0 {
		w.u32(unix.NFTA_SET_DATA_TYPE, typeID(s.Data))
		w.u32(unix.NFTA_SET_DATA_LEN, uint32(wire(s.Data)))
	}
	if s.Timeout > 0 {
		w.u64(unix.NFTA_SET_TIMEOUT, uint64(s.Timeout/time.Millisecond))
	}
	w.desc(s)
	w.byteOrder(s)
	w.done(at)
}

// byteOrder tells the nft command, by libnftnl's user data, which lone numbers are in the host's order.
func (w *batch) byteOrder(s *Set) {
	host := string([]byte{4}) + host32(1)
	data := ""
	if len(s.Key) == 1 && s.Key[0] == Mark {
		data += "\x00" + host
	}
	if len(s.Data) == 1 && s.Data[0] == Mark {
		data += "\x01" + host
	}
	if data != "" {
		w.bytes(unix.NFTA_SET_USERDATA, data)
	}
}

// desc tells the size, and for concatenated intervals the length of each field.
func (w *batch) desc(s *Set) {
	if s.Size+s.Room == 0 && s.flags()&flagSetConcat == 0 {
		return
	}
	desc := w.nest(unix.NFTA_SET_DESC)
	if s.Size+s.Room > 0 {
		w.u32(unix.NFTA_SET_DESC_SIZE, max(s.Size, s.Room))
	}
	if s.flags()&flagSetConcat != 0 {
		list := w.nest(attrSetDescConcat)
		for _, t := range s.Key {
			field := w.nest(unix.NFTA_LIST_ELEM)
			w.u32(attrSetFieldLen, uint32(t.Len()))
			w.end(field)
		}
		w.end(list)
	}
	w.end(desc)
}

// elems writes the elements in as many messages as they need.
func (w *batch) elems(typ, flags uint16, op Op) {
	for es := op.Elems; len(es) > 0; {
		at := w.begin(typ, flags, op.Table)
		w.str(unix.NFTA_SET_ELEM_LIST_TABLE, op.Table.Name)
		w.str(unix.NFTA_SET_ELEM_LIST_SET, op.Set.Name)
		list := w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for len(es) > 0 && len(w.b)-list < chunk {
			w.elem(op.Set, es[0], typ == unix.NFT_MSG_NEWSETELEM)
			es = es[1:]
		}
		w.end(list)
		w.done(at)
	}
}

func (w *batch) elem(s *Set, e Elem, withValue bool) {
	n := wire(s.Key)
	if s.Interval && len(s.Key) == 1 {
		half := len(e.Key) / 2
		w.bound(e.Key[:half][:n], 0, func() { w.value(s, e, withValue) })
		if end, ok := successor(e.Key[half:][:n]); ok {
			w.bound(end, unix.NFT_SET_ELEM_INTERVAL_END, func() {})
		}
		return
	}
	at := w.nest(unix.NFTA_LIST_ELEM)
	w.data(unix.NFTA_SET_ELEM_KEY, e.Key[:n])
	if s.Interval {
		w.data(attrElemKeyEnd, e.Key[n:])
	}
	w.value(s, e, withValue)
	w.end(at)
}

// bound writes one end of an interval of a single field.
func (w *batch) bound(key string, flags uint32, value func()) {
	at := w.nest(unix.NFTA_LIST_ELEM)
	w.data(unix.NFTA_SET_ELEM_KEY, key)
	if flags != 0 {
		w.u32(unix.NFTA_SET_ELEM_FLAGS, flags)
	}
	value()
	w.end(at)
}

func (w *batch) value(s *Set, e Elem, withValue bool) {
	switch {
	case !withValue:
	case s.Verdicts:
		v, _ := ParseVerdict(e.Value)
		w.verdict(unix.NFTA_SET_ELEM_DATA, v)
	case len(s.Data) > 0:
		w.data(unix.NFTA_SET_ELEM_DATA, e.Value[:wire(s.Data)])
	}
}

// successor is the key after the last of an interval; false when there is none.
func successor(key string) (string, bool) { return step(key, 0xff, 1) }

// predecessor is the key before; false when there is none.
func predecessor(key string) (string, bool) { return step(key, 0, 0xff) }

func step(key string, carry, add byte) (string, bool) {
	b := []byte(key)
	for i := len(b) - 1; i >= 0; i-- {
		over := b[i] == carry
		b[i] += add
		if !over {
			return string(b), true
		}
	}
	return "", false
}
