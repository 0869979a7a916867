package bpf

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/cilium/ebpf"
)

// atOnce is how many elements go to or come from the kernel in one call.
const atOnce = 1 << 13

// few is up to how many elements are written one by one, which costs no buffers.
const few = 8

// Dump implements Maps.
func (k *Conn) Dump(_ context.Context, name string) (map[string]string, error) {
	m, err := k.open(name)
	if m == nil || err != nil {
		return nil, err
	}
	out := map[string]string{}
	if m.Type() == ebpf.Array {
		it := m.Iterate()
		key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
		for it.Next(&key, &value) {
			out[string(key)] = string(value)
		}
		return out, wrap("read", name, it.Err())
	}
	keys, values := newColumn(m.KeySize(), atOnce), newColumn(m.ValueSize(), atOnce)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys.slice, values.slice, nil)
		for i := range n {
			out[string(keys.at(i))] = string(values.at(i))
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return out, nil
		}
		if err != nil {
			return nil, wrap("read", name, err)
		}
	}
}

// Get implements Maps.
func (k *Conn) Get(_ context.Context, name, key string) (string, bool, error) {
	m, err := k.open(name)
	if m == nil || err != nil {
		return "", false, err
	}
	v, err := m.LookupBytes([]byte(key))
	return string(v), v != nil, wrap("look up in", name, err)
}

// Apply implements Maps.
func (k *Conn) Apply(_ context.Context, ops []Op) error {
	for _, op := range ops {
		m, err := k.open(op.Map)
		if err != nil {
			return err
		}
		if m == nil {
			return fmt.Errorf("bpf: there is no map %s", op.Map)
		}
		if err := put(m, op.Puts); err != nil {
			return wrap("write to", op.Map, err)
		}
		for _, key := range op.Dels {
			if err := m.Delete([]byte(key)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return wrap("delete from", op.Map, err)
			}
		}
	}
	return nil
}

func put(m *ebpf.Map, all []Entry) error {
	if len(all) <= few {
		for _, e := range all {
			if err := m.Put([]byte(e.Key), []byte(e.Value)); err != nil {
				return err
			}
		}
		return nil
	}
	for len(all) > 0 {
		n := min(len(all), atOnce)
		keys, values := newColumn(m.KeySize(), n), newColumn(m.ValueSize(), n)
		for i, e := range all[:n] {
			copy(keys.at(i), e.Key)
			copy(values.at(i), e.Value)
		}
		if _, err := m.BatchUpdate(keys.slice, values.slice, nil); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func wrap(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bpf: %s map %s: %w", verb, name, explain(err))
}

// column is a slice of byte arrays, which is what package ebpf passes to the kernel as it is, and its bytes.
type column struct {
	slice any
	bytes []byte
	size  int
}

func newColumn(size uint32, n int) column {
	v := reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(int(size), reflect.TypeFor[byte]())), n, n)
	return column{v.Interface(), unsafe.Slice((*byte)(v.UnsafePointer()), n*int(size)), int(size)}
}

func (c column) at(i int) []byte { return c.bytes[i*c.size : (i+1)*c.size] }
