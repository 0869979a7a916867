package ebpf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	"github.com/podway/podway/internal/kernel/bpf"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// onFake is a backend on fakes.
func onFake() (*Backend, *bpf.Fake, *knft.Fake) {
	k, rules := bpf.NewFake(programs), knft.NewFake()
	return New(Host{
		Open:    func() (bpf.Kernel, error) { return k, nil },
		Packets: nft.New(func() (knft.Kernel, error) { return rules, nil }),
		Netns:   func() (uint64, error) { return 1, nil },
	}), k, rules
}

func TestAChangeOfOneServiceWritesNothingElse(t *testing.T) {
	b, _, _ := onFake()
	one, two := proxytest.Plans()
	if done, err := b.Apply(t.Context(), one); err != nil || !done.Full {
		t.Fatalf("first: %+v, %v", done, err)
	}
	// One slot here; one endpoint and one hairpin address in the packets' rules.
	if done, err := b.Apply(t.Context(), two); err != nil || done.Full || done.Changed != 4 {
		t.Errorf("second: %+v, %v; want 4 changes, not full", done, err)
	}
}

func TestDriftIsNoticedSaidAndRepaired(t *testing.T) {
	ctx := t.Context()
	b, k, _ := onFake()
	plan, _ := proxytest.Plans()
	apply := func() {
		t.Helper()
		if _, err := b.Apply(ctx, plan); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		b.compared = time.Time{} // else the maps are compared rarely
		got, err := b.Check(ctx)
		if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("drift %q, %v; want %q", got, err, want)
		}
	}
	apply()
	check("")
	k.Detach("connect4")
	check("program connect4 is not attached")
	apply()
	check("")
	have, _ := k.Dump(ctx, services)
	for key := range have {
		if err := k.Apply(ctx, []bpf.Op{{Map: services, Dels: []string{key}}}); err != nil {
			t.Fatal(err)
		}
	}
	check("map services lacks tcp 10.96.0.7:80")
	apply()
	check("")
	extra := slotKey(front{addr: netip.MustParseAddrPort("10.96.0.9:80"), proto: "tcp"}, 3)
	if err := k.Apply(ctx, []bpf.Op{{Map: slots, Puts: []bpf.Entry{{Key: extra, Value: strings.Repeat("\x00", 20)}}}}); err != nil {
		t.Fatal(err)
	}
	check("map slots has tcp 10.96.0.9:80 . 3")
	apply()
	check("")
}

func TestTheLayoutIsTheObjects(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	s := hoptest.NewCluster().Put(hoptest.Service("cart", 7, func(s *model.Service) {
		s.AffinityTimeout = time.Hour
	}), hoptest.Slice("cart", hoptest.Ready("10.244.1.5"))).Snapshot()
	for name, m := range collect(proxy.Decide(s, hoptest.NodeA)).maps {
		want := spec.Maps[name]
		if len(m) == 0 {
			t.Errorf("map %s: nothing to compare", name)
		}
		for k, v := range m {
			if len(k) != int(want.KeySize) || len(v) != int(want.ValueSize) {
				t.Errorf("map %s: key %d and value %d bytes, the object has %d and %d", name, len(k), len(v), want.KeySize, want.ValueSize)
			}
		}
	}
	if got := spec.Maps[connections].ValueSize; got != 72 {
		t.Errorf("a connection has %d bytes, connectionOf reads 72", got)
	}
	for _, p := range programs {
		if spec.Programs[p] == nil {
			t.Errorf("the object has no program %s", p)
		}
	}
}

func TestTheObjectIsThatOfItsSource(t *testing.T) {
	want, err := os.ReadFile("zz_sockets.sum")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range []string{"sockets.c", "maps.h"} {
		b, err := os.ReadFile(filepath.Join("bpf", f))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%x  %s\n", sha256.Sum256(b), f)
	}
	if got.String() != string(want) {
		t.Fatal("the source changed since the object was made: make bpf")
	}
	if _, err := exec.LookPath("clang-16"); err != nil {
		return // the sums are what can be compared without a compiler
	}
	dir := t.TempDir()
	if out, err := exec.Command("make", "-C", "../../../..", "-s", "bpf", "BPF_OUT="+dir).CombinedOutput(); err != nil {
		t.Fatalf("make bpf: %v\n%s", err, out)
	}
	again, err := os.ReadFile(filepath.Join(dir, "zz_sockets.o"))
	if err != nil || !bytes.Equal(again, object) {
		t.Errorf("the compiler makes another object of the same source (%v): make bpf", err)
	}
}

func TestWhatTheSourceDecidesIsLeftToThePacketsRules(t *testing.T) {
	for name, edit := range map[string]func(*model.Service){
		"maglev": func(s *model.Service) { s.Annotations = map[string]string{"podway.io/balance": "maglev"} },
		"source ranges": func(s *model.Service) {
			s.Type, s.LoadBalancerIPs = model.LoadBalancer, []model.LoadBalancerIP{{Addr: netip.MustParseAddr("198.51.100.7")}}
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		},
	} {
		s := hoptest.NewCluster().Put(hoptest.Service("cart", 7, edit), hoptest.Slice("cart", hoptest.Ready("10.244.1.5"))).Snapshot()
		for k, v := range collect(proxy.Decide(s, hoptest.NodeA)).maps[services] {
			if name == "maglev" || frontOf(k).addr.Addr() == netip.MustParseAddr("198.51.100.7") {
				t.Errorf("%s: sockets decide about %s", name, text(services, k, v))
			}
		}
	}
}

type unsupported struct{ proxy.Backend }

func (unsupported) Supported(context.Context) error { return errors.ErrUnsupported }

func TestAHostThatCannotDoThePacketsRulesIsNotSupported(t *testing.T) {
	b, _, _ := onFake()
	if err := b.Supported(t.Context()); err != nil {
		t.Error(err)
	}
	b.host.Packets = unsupported{b.host.Packets}
	if err := b.Supported(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func TestWithoutItsRightsThePacketsRulesServeAndTheRemedyIsNamed(t *testing.T) {
	b, k, rules := onFake()
	k.Fail = func() error { return fmt.Errorf("bpf: make map services: %w", os.ErrPermission) }
	one, _ := proxytest.Plans()
	if _, err := b.Apply(t.Context(), one); err == nil || !strings.Contains(err.Error(), "deploy/modes/ebpf") {
		t.Errorf("the error is %v", err)
	}
	if have, err := rules.Read(t.Context(), knft.IPv4, "podway-proxy"); err != nil || have == nil {
		t.Errorf("the packets' rules: %v, %v", have, err)
	}
}
