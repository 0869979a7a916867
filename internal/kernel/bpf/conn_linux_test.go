package bpf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/podway/podway/internal/nettest"
)

// The object of the service proxy is as good as any; keys of its map services have 20 bytes, values 32.
var testPrograms = []string{"getpeername4", "connect4"}

const testMap, keySize, valueSize = "services", 20, 32

func testConfig(t *testing.T) Config {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.Netns, nettest.EBPF)
	object, err := os.ReadFile("../../hop/proxy/ebpf/zz_sockets.o")
	if err != nil {
		t.Fatal(err)
	}
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if err := w.UseCgroups(); err != nil {
		t.Fatal(err)
	}
	n, err := w.AddNode("node", 0)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Object: object, Programs: testPrograms, Dir: filepath.Join(n.BPF(), "test"), Cgroup: n.Cgroup()}
}

func open(t *testing.T, c Config) *Conn {
	t.Helper()
	k, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// install brings everything in with room for n entries and returns how much changed.
func install(t *testing.T, k *Conn, n int) int {
	t.Helper()
	if err := k.Prepare(t.Context(), map[string]int{testMap: n}); err != nil {
		t.Fatal(err)
	}
	changed, err := k.Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func attached(t *testing.T, k *Conn, want ...string) {
	t.Helper()
	if got, err := k.Attached(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("attached: %v, %v; want %v", got, err, want)
	}
}

func entry(i byte) Entry {
	k, v := make([]byte, keySize), make([]byte, valueSize)
	k[0], v[0], v[valueSize-1] = i, i, ^i
	return Entry{string(k), string(v)}
}

func TestWhatWasInstalledOutlivesTheDoor(t *testing.T) {
	ctx, c := t.Context(), testConfig(t)
	k := open(t, c)
	attached(t, k)
	if n := install(t, k, 10); n == 0 {
		t.Error("nothing was installed")
	}
	var puts []Entry
	for i := range 100 { // more than go one by one
		puts = append(puts, entry(byte(i)))
	}
	if err := k.Apply(ctx, []Op{{Map: testMap, Puts: puts, Dels: []string{entry(7).Key, entry(200).Key}}}); err != nil {
		t.Fatal(err)
	}
	k.Close()
	again := open(t, c)
	attached(t, again, testPrograms...)
	m, err := again.Dump(ctx, testMap)
	if err != nil || len(m) != 99 || m[entry(99).Key] != entry(99).Value {
		t.Errorf("%d entries, %v", len(m), err)
	}
	if _, ok, err := again.Get(ctx, testMap, entry(7).Key); ok || err != nil {
		t.Errorf("a deleted entry: %v, %v", ok, err)
	}
	if n := install(t, again, 10); n != 0 {
		t.Errorf("a second installation changed %d", n)
	}
	if err := again.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pins were left: %v", err)
	}
	if err := again.Remove(ctx); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
}

func TestAnotherVersionReplacesProgramsAndKeepsLinks(t *testing.T) {
	c := testConfig(t)
	k := open(t, c)
	install(t, k, 10)
	id := func() link.ID {
		l, err := k.link("connect4")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		return info.ID
	}
	before := id()
	next := open(t, c)
	p := next.spec.Programs["connect4"]
	p.Instructions = append(asm.Instructions{asm.Mov.Reg(asm.R1, asm.R1).WithMetadata(p.Instructions[0].Metadata)}, p.Instructions...)
	p.Instructions[1].Metadata = asm.Metadata{}
	if n := install(t, next, 10); n != 1 {
		t.Errorf("%d changes, want the one program", n)
	}
	attached(t, next, testPrograms...)
	if after := id(); after != before {
		t.Error("the link was made anew: for a moment nothing was attached")
	}
	next.Close()
	back := open(t, c)
	if n := install(t, back, 10); n != 1 {
		t.Errorf("back to the former version: %d changes, want 1", n)
	}
}

func TestAMapThatIsTooSmallIsReplacedWithAllPrograms(t *testing.T) {
	ctx, c := t.Context(), testConfig(t)
	k := open(t, c)
	install(t, k, 10)
	if err := k.Apply(ctx, []Op{{Map: testMap, Puts: []Entry{entry(1)}}}); err != nil {
		t.Fatal(err)
	}
	if n := install(t, k, 10000); n != 1+1 { // the map and connect4, the only one that uses it
		t.Errorf("%d changes, want 2", n)
	}
	attached(t, k, testPrograms...)
	m, err := k.Dump(ctx, testMap)
	if err != nil || m == nil || len(m) != 0 {
		t.Errorf("the new map has %d entries, %v", len(m), err)
	}
}

func TestWhatOthersTookAwayIsSeenAndMended(t *testing.T) {
	c := testConfig(t)
	k := open(t, c)
	install(t, k, 10)
	l, err := k.link("connect4")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Detach(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	attached(t, k, "getpeername4")
	if n := install(t, k, 10); n != 1 {
		t.Errorf("%d changes, want 1", n)
	}
	attached(t, k, testPrograms...)
	for _, pin := range []string{k.linkPin("connect4"), k.progPin("getpeername4"), k.mapPin("slots")} {
		if err := os.Remove(pin); err != nil {
			t.Fatal(err)
		}
		fresh := open(t, c)
		if n := install(t, fresh, 10); n == 0 {
			t.Errorf("%s was deleted, and nothing changed", pin)
		}
		t.Run("without "+filepath.Base(pin), func(t *testing.T) { attached(t, fresh, testPrograms...) })
		fresh.Close()
	}
}

func TestAWrongPlaceIsNamed(t *testing.T) {
	c := testConfig(t)
	wrong := c
	wrong.Dir = filepath.Join(t.TempDir(), "pins")
	if err := open(t, wrong).Try(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no BPF file system: %v", err)
	}
	wrong = c
	wrong.Cgroup = t.TempDir()
	if err := open(t, wrong).Try(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no control group: %v", err)
	}
}

func TestTryingLeavesNothing(t *testing.T) {
	c := testConfig(t)
	if err := open(t, c).Try(t.Context()); err != nil {
		t.Fatal(err)
	}
	pins, _ := os.ReadDir(filepath.Dir(c.Dir))
	groups, _ := filepath.Glob(filepath.Join(c.Cgroup, "podway-try-*"))
	if len(pins)+len(groups) > 1 { // the folder of the pins itself may be there
		t.Errorf("left: %v %v", pins, groups)
	}
}
