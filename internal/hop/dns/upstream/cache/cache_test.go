package cache

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/upstream/packet"
)

func key(name string) Key { return Key{Name: []byte(name), Type: dns.TypeA} }

func entry(name string) *Entry { return &Entry{Key: key(name), Answer: packet.Failure(0)} }

func get(c *Cache, name string) *Entry {
	k := key(name)
	return c.Get(&k)
}

func use(c *Cache, name string) bool {
	k := key(name)
	return c.Use(&k) != nil
}

func TestTheWholeQuestionCounts(t *testing.T) {
	c := New(100, 1<<20)
	keys := []Key{{Name: []byte("x"), Type: 1}, {Name: []byte("x"), Type: 28}, {Name: []byte("x"), Type: 1, DO: true}, {Name: []byte("x"), Type: 1, CD: true}, {Name: []byte("y"), Type: 1}}
	for i, k := range keys {
		if c.Get(&k) != nil {
			t.Errorf("%v is found before it is put", k)
		}
		c.Put(&Entry{Key: k, Stored: int64(i), Answer: packet.Failure(0)})
	}
	for i, k := range keys {
		if e := c.Get(&k); e == nil || e.Stored != int64(i) {
			t.Errorf("%v: got %v", k, e)
		}
	}
}

func TestEqualHashesAreNotEqualQuestions(t *testing.T) {
	var table table
	table.reset(8)
	one, two := entry("one"), entry("two")
	one.hash, two.hash = 5, 5
	table.put(one)
	table.put(two)
	for _, want := range []*Entry{one, two} {
		if got := table.find(5, &want.Key); got != want {
			t.Errorf("%s: got %v", want.Key.Name, got)
		}
	}
	k := key("three")
	if table.find(5, &k) != nil {
		t.Error("a question that was never put is found by its hash alone")
	}
	table.delete(one)
	if table.find(5, &one.Key) != nil || table.find(5, &two.Key) != two {
		t.Error("deleting one of two with the same hash")
	}
}

func TestTheSameQuestionIsKeptOnce(t *testing.T) {
	c := New(100, 1<<20)
	for range 10 {
		c.Put(entry("x"))
	}
	if s := c.Stats(); s.Entries != 1 || s.Evicted != 0 {
		t.Errorf("got %+v", s)
	}
	k := key("x")
	c.Delete(&k)
	if s := c.Stats(); s.Entries != 0 || s.Bytes != 0 || get(c, "x") != nil {
		t.Errorf("after Delete: %+v", s)
	}
}

func TestEntriesAndBytesAreBounded(t *testing.T) {
	for _, size := range []int{1, 10, 50, 3000} {
		c := New(size, 1<<30)
		for i := range 10 * size {
			c.Put(entry(fmt.Sprintf("n%d", i)))
		}
		if s := c.Stats(); s.Entries > size || s.Entries < size*8/10 || s.Evicted != uint64(10*size-s.Entries) {
			t.Errorf("size %d: %+v", size, s)
		}
	}
	c := New(1_000_000, 1<<20)
	for i := range 20_000 {
		c.Put(entry(fmt.Sprintf("n%d", i)))
	}
	if s := c.Stats(); s.Bytes > 1<<20 || s.Bytes < 1<<19 {
		t.Errorf("got %+v", s)
	}
}

func TestAnEntryThatFillsTheCacheIsNotKept(t *testing.T) {
	c := New(1, 1<<10)
	c.Put(entry("small"))
	big := entry("big")
	big.Key.Name = make([]byte, 1<<10)
	c.Put(big)
	if s := c.Stats(); s.Entries != 1 || get(c, "small") == nil {
		t.Errorf("got %+v", s)
	}
}

func TestAFloodOfRandomNamesLeavesTheNamesInUse(t *testing.T) {
	c := New(5000, 1<<30)
	for range 3 {
		for i := range 1000 {
			if name := fmt.Sprintf("hot%d", i); !use(c, name) {
				c.Put(entry(name))
			}
		}
	}
	for i := range 60_000 {
		c.Put(entry(fmt.Sprintf("random%d", i)))
		if i%20 == 0 {
			use(c, fmt.Sprintf("hot%d", i/20%1000))
		}
	}
	left := 0
	for i := range 1000 {
		if get(c, fmt.Sprintf("hot%d", i)) != nil {
			left++
		}
	}
	if left < 950 {
		t.Errorf("%d of 1000 names in use are left", left)
	}
	if s := c.Stats(); s.Entries > 5000 {
		t.Errorf("got %+v", s)
	}
}

func TestLookingUpAllocatesNothing(t *testing.T) {
	c := New(100, 1<<20)
	c.Put(entry("x"))
	k := key("x")
	if n := testing.AllocsPerRun(100, func() {
		if c.Use(&k) == nil {
			t.Fatal("gone")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReadersAndWritersAtOnce(t *testing.T) {
	c := New(64, 1<<20)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				name := fmt.Sprintf("n%d", rand.IntN(200))
				switch k := key(name); rand.IntN(4) {
				case 0:
					c.Put(entry(name))
				case 1:
					c.Delete(&k)
				default:
					if e := c.Use(&k); e != nil && string(e.Key.Name) != name {
						t.Errorf("asked for %s, got %s", name, e.Key.Name)
					}
				}
			}
		})
	}
	wg.Wait()
	s, found := c.Stats(), 0
	for i := range 200 {
		if get(c, fmt.Sprintf("n%d", i)) != nil {
			found++
		}
	}
	if s.Entries != found || s.Entries > 64 {
		t.Errorf("%d entries are counted, %d found", s.Entries, found)
	}
}

func BenchmarkUse(b *testing.B) {
	c := New(10_000, 1<<30)
	keys := make([]Key, 10_000)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("\x06host%02d\x07example\x03com\x00", i))
		c.Put(&Entry{Key: keys[i], Answer: packet.Failure(0)})
	}
	for i := 0; b.Loop(); i++ {
		c.Use(&keys[i*7919%len(keys)])
	}
}

func TestAnEntryOwnsWhatItKeeps(t *testing.T) {
	for _, size := range []int{3, 100, 250} {
		name := make([]byte, size)
		for i := range name {
			name[i] = byte(i)
		}
		want := string(name)
		e := NewEntry(Key{Name: name, Type: dns.TypeA}, packet.Failure(dns.RcodeNameError))
		clear(name)
		if string(e.Key.Name) != want || e.Answer.Rcode != dns.RcodeNameError || e.Key.Type != dns.TypeA {
			t.Errorf("%d bytes: %q, rcode %d", size, e.Key.Name, e.Answer.Rcode)
		}
	}
}
