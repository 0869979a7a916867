package nft

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Look implements Kernel. Intervals of a single field are read whole: the kernel tells their ends apart only in a dump.
func (c *Conn) Look(ctx context.Context, f Family, name string) (*Table, error) {
	return c.patiently(ctx, f, name, func(t *Table, s *Set) error {
		if s.Interval && len(s.Key) == 1 {
			return c.readElems(t, s)
		}
		s.ask = func(key string) (string, bool, error) { return c.element(t, s, key) }
		return nil
	})
}

// element asks for the element that a key matches.
func (c *Conn) element(t *Table, s *Set, key string) (string, bool, error) {
	found := Set{Key: s.Key, Data: s.Data, Verdicts: s.Verdicts, Interval: s.Interval, Elems: map[string]string{}}
	err := c.ask(unix.NFT_MSG_GETSETELEM, 0, t.Family, func(w *buffer) {
		w.str(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
		w.str(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
		list := w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		at := w.nest(unix.NFTA_LIST_ELEM)
		w.data(unix.NFTA_SET_ELEM_KEY, key[:wire(s.Key)])
		w.end(at)
		w.end(list)
	}, func(a map[uint16][]byte) {
		attrs(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, b []byte) { found.decodeElem(b) })
	})
	if errors.Is(err, unix.ENOENT) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("nft: look up %s in set %s: %w", s.FormatKey(key), s.Name, err)
	}
	for _, v := range found.Elems {
		return v, true, nil
	}
	return "", false, nil
}
