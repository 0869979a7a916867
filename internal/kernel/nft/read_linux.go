package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// errChanged means that somebody changed tables while they were being read, or that the kernel was making a hash table
// larger, which it does for a while after a big load: then some elements come twice and others not at all.
var errChanged = errors.New("tables changed while they were read")

// Read implements Kernel. It asks for the one table's rules, sets and elements; of other tables it sees no more than the
// names of their chains, because the kernel lists those of a family together.
func (c *Conn) Read(ctx context.Context, f Family, name string) (*Table, error) {
	return c.patiently(ctx, f, name, c.readElems)
}

// patiently reads a table again when it changed meanwhile. elems fills a set.
func (c *Conn) patiently(ctx context.Context, f Family, name string, elems func(*Table, *Set) error) (*Table, error) {
	for try := 0; ; try++ {
		t, err := c.readOnce(ctx, f, name, elems)
		if !errors.Is(err, errChanged) || try == 9 {
			if err != nil {
				return nil, fmt.Errorf("nft: read table %s %s: %w", f, name, err)
			}
			return t, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond << try):
		}
	}
}

func (c *Conn) readOnce(ctx context.Context, f Family, name string, elems func(*Table, *Set) error) (*Table, error) {
	before, err := c.Generation(ctx)
	if err != nil {
		return nil, err
	}
	t := NewTable(f, name)
	switch err := c.readTable(t); {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, err
	}
	sets := func(t *Table) error { return c.readSets(t, elems) }
	for _, step := range []func(*Table) error{c.readChains, c.readRules, sets} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(t); err != nil {
			return nil, err
		}
	}
	after, err := c.Generation(ctx)
	if err == nil && before != after {
		err = errChanged
	}
	return t, err
}

// Generation implements Kernel.
func (c *Conn) Generation(context.Context) (uint32, error) {
	gen := uint32(0)
	err := c.ask(unix.NFT_MSG_GETGEN, 0, 0, func(*buffer) {}, func(a map[uint16][]byte) { gen = be32(a[unix.NFTA_GEN_ID]) })
	if err != nil {
		return 0, fmt.Errorf("nft: generation: %w", err)
	}
	return gen, nil
}

// ask sends one question and calls f for each message of the answer, with its attributes.
func (c *Conn) ask(typ, flags uint16, f Family, fill func(*buffer), each func(map[uint16][]byte)) error {
	c.seq++
	seq := c.seq
	w := &buffer{}
	at := w.message(msgNFT|typ, flags|unix.NLM_F_ACK, seq, uint8(f), 0)
	fill(w)
	w.done(at)
	c.seq++
	if err := c.send(w.b); err != nil {
		return err
	}
	done, changed := false, false
	for !done {
		err := c.receive(func(h header, body []byte) error {
			if h.seq != seq {
				return nil
			}
			changed = changed || h.flags&unix.NLM_F_DUMP_INTR != 0
			switch h.typ {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				done = true
				if errno := answer(body); errno != 0 {
					return explain(errno)
				}
			default:
				each(tree(body[min(4, len(body)):]))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if changed {
		return errChanged
	}
	return nil
}

func answer(body []byte) unix.Errno {
	if len(body) < 4 {
		return 0
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
}

func (c *Conn) readTable(t *Table) error {
	return c.ask(unix.NFT_MSG_GETTABLE, 0, t.Family, func(w *buffer) { w.str(unix.NFTA_TABLE_NAME, t.Name) },
		func(a map[uint16][]byte) { t.Comment = comment(a[attrTableUserdata], udataTableComment) })
}

// comment reads user data as libnftnl writes it.
func comment(b []byte, typ byte) string {
	for len(b) >= 2 && len(b) >= 2+int(b[1]) {
		if b[0] == typ {
			return cstr(b[2 : 2+int(b[1])])
		}
		b = b[2+int(b[1]):]
	}
	return ""
}

func (c *Conn) readChains(t *Table) error {
	return c.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, t.Family, func(*buffer) {}, func(a map[uint16][]byte) {
		if cstr(a[unix.NFTA_CHAIN_TABLE]) != t.Name {
			return
		}
		chain := &Chain{Name: cstr(a[unix.NFTA_CHAIN_NAME])}
		if hook, ok := a[unix.NFTA_CHAIN_HOOK]; ok {
			h := tree(hook)
			chain.Base = &Base{
				Type:     cstr(a[unix.NFTA_CHAIN_TYPE]),
				Hook:     Hook(be32(h[unix.NFTA_HOOK_HOOKNUM])),
				Priority: int32(be32(h[unix.NFTA_HOOK_PRIORITY])),
				Drop:     be32(a[unix.NFTA_CHAIN_POLICY]) == 0,
			}
		}
		t.Chains[chain.Name] = chain
	})
}

func (c *Conn) readRules(t *Table) error {
	return c.ask(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, t.Family, func(w *buffer) { w.str(unix.NFTA_RULE_TABLE, t.Name) },
		func(a map[uint16][]byte) {
			chain := t.Chains[cstr(a[unix.NFTA_RULE_CHAIN])]
			if cstr(a[unix.NFTA_RULE_TABLE]) != t.Name || chain == nil {
				return
			}
			r := Rule{Comment: comment(a[unix.NFTA_RULE_USERDATA], udataRuleComment)}
			attrs(a[unix.NFTA_RULE_EXPRESSIONS], func(_ uint16, b []byte) { r.Exprs = append(r.Exprs, decodeExpr(b)) })
			chain.Rules = append(chain.Rules, r)
		})
}

func (c *Conn) readSets(t *Table, elems func(*Table, *Set) error) error {
	err := c.ask(unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, t.Family, func(w *buffer) { w.str(unix.NFTA_SET_TABLE, t.Name) },
		func(a map[uint16][]byte) {
			if cstr(a[unix.NFTA_SET_TABLE]) == t.Name {
				s := decodeSet(a)
				t.Sets[s.Name] = s
			}
		})
	if err != nil {
		return err
	}
	for _, name := range sorted(t.Sets) {
		if s := t.Sets[name]; !s.Dynamic {
			if err := elems(t, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func decodeSet(a map[uint16][]byte) *Set {
	flags := be32(a[unix.NFTA_SET_FLAGS])
	s := &Set{
		Name:     cstr(a[unix.NFTA_SET_NAME]),
		Key:      typesOf(be32(a[unix.NFTA_SET_KEY_TYPE])),
		Interval: flags&unix.NFT_SET_INTERVAL != 0,
		Dynamic:  flags&unix.NFT_SET_EVAL != 0,
		Timeout:  time.Duration(be64(a[unix.NFTA_SET_TIMEOUT])) * time.Millisecond,
		Elems:    map[string]string{},
	}
	if flags&unix.NFT_SET_MAP != 0 {
		typ := be32(a[unix.NFTA_SET_DATA_TYPE])
		if s.Verdicts = typ == unix.NFT_DATA_VERDICT; !s.Verdicts {
			s.Data = typesOf(typ)
		}
	}
	if size := be32(tree(a[unix.NFTA_SET_DESC])[unix.NFTA_SET_DESC_SIZE]); s.Dynamic {
		s.Size = size
	} else {
		s.Room = size
	}
	return s
}

// typesOf unpacks what typeID packed.
func typesOf(id uint32) []Type {
	var out []Type
	for shift := 30; shift >= 0; shift -= 6 {
		if t := Type(id >> shift & 63); t != 0 || len(out) > 0 {
			out = append(out, t)
		}
	}
	return out
}

func (c *Conn) readElems(t *Table, s *Set) error {
	var ends []string
	seen := 0
	err := c.ask(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, t.Family, func(w *buffer) {
		w.str(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
		w.str(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
	}, func(a map[uint16][]byte) {
		attrs(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, b []byte) {
			seen++
			if end := s.decodeElem(b); end != "" {
				ends = append(ends, end)
			}
		})
	})
	if err == nil && seen != len(s.Elems)+len(ends) {
		err = errChanged
	}
	if err == nil && s.Interval && len(s.Key) == 1 {
		s.pair(ends)
	}
	return err
}
