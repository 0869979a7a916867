package nft

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	knft "github.com/podway/podway/internal/kernel/nft"
)

func TestTheRulesReadAsExpected(t *testing.T) {
	for _, c := range hoptest.ServiceCases() {
		file := map[string]string{"exposed": "exposed", "dual stack, sticky, Local, guarded": "everything", "no ready endpoint": "empty"}[c.Name]
		if file == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			got := Render(proxy.Decide(c.Snapshot, hoptest.NodeA)).Text()
			proxytest.Golden(t, "testdata/"+file+".nft", got)
		})
	}
}

func TestAChangeOfOneServiceWritesNothingElse(t *testing.T) {
	fake := knft.NewFake()
	b := New(func() (knft.Kernel, error) { return fake, nil })
	one, two := proxytest.Plans()
	if done, err := b.Apply(t.Context(), one); err != nil || !done.Full {
		t.Fatalf("first: %+v, %v", done, err)
	}
	// One endpoint: deleted and added. One hairpin address: deleted.
	if done, err := b.Apply(t.Context(), two); err != nil || done.Full || done.Changed != 3 {
		t.Errorf("second: %+v, %v; want 3 changes, not full", done, err)
	}
}

func TestDriftIsNoticedSaidAndRepaired(t *testing.T) {
	ctx := t.Context()
	fake := knft.NewFake()
	b := New(func() (knft.Kernel, error) { return fake, nil })
	plan, _ := proxytest.Plans()
	if _, err := b.Apply(ctx, plan); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		got, err := b.Check(ctx)
		if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("drift %q, %v; want %q", got, err, want)
		}
	}
	check("")
	other := knft.NewTable(knft.IPv4, "somebody-else")
	if err := fake.Apply(ctx, knft.Create(other)); err != nil {
		t.Fatal(err)
	}
	check("") // another table is no drift
	have, _ := fake.Read(ctx, knft.IPv4, tableName)
	for k, v := range have.Sets[services].Elems {
		op := knft.Op{Kind: knft.DelElems, Table: have, Set: have.Sets[services], Elems: []knft.Elem{{Key: k, Value: v}}}
		if err := fake.Apply(ctx, []knft.Op{op}); err != nil {
			t.Fatal(err)
		}
		break
	}
	check("add elements to set services")
	if done, err := b.Apply(ctx, plan); err != nil || done.Changed != 1 || !done.Full {
		t.Errorf("repair: %+v, %v; want the one element", done, err)
	}
	check("")
	if err := fake.Apply(ctx, []knft.Op{{Kind: knft.DelTable, Table: have}}); err != nil {
		t.Fatal(err)
	}
	check("add table")
	if _, err := b.Apply(ctx, plan); err != nil {
		t.Fatal(err)
	}
	if now, _ := fake.Read(ctx, knft.IPv4, tableName); !now.Equal(have) {
		t.Error("the table did not come back as it was")
	}
}

func TestClassesWithTheSameNumberAreKeptApart(t *testing.T) {
	old := hash
	t.Cleanup(func() { hash = old })
	hash = func(string) uint32 { return 7 }
	s := mode.Subject(proxytest.Default())
	s.Steps = 60
	hoptest.Run(t, s)
}

func TestATableThatCannotBeChangedIsReplaced(t *testing.T) {
	ctx := t.Context()
	fake := knft.NewFake()
	plan, _ := proxytest.Plans()
	// Somebody made our base chain an ordinary one and jumps to it, so it cannot be deleted alone.
	odd := knft.NewTable(knft.IPv4, tableName)
	odd.Comment = comment
	odd.AddChain(&knft.Chain{Name: prerouting}, &knft.Chain{Name: toServices, Rules: []knft.Rule{knft.R(knft.Verdict{Kind: knft.Jump, Chain: prerouting})}})
	if err := fake.Apply(ctx, knft.Create(odd)); err != nil {
		t.Fatal(err)
	}
	b := New(func() (knft.Kernel, error) { return fake, nil })
	if _, err := b.Apply(ctx, plan); err != nil {
		t.Fatal(err)
	}
	got, _ := fake.Read(ctx, knft.IPv4, tableName)
	if want := Render(plan).table(knft.IPv4); !got.Equal(want) {
		t.Error("the table is not the plan's")
	}
}

func TestAKernelThatLacksSomethingIsSaidClearly(t *testing.T) {
	fake := knft.NewFake()
	fake.Fail = func([]knft.Op) error { return errors.ErrUnsupported }
	b := New(func() (knft.Kernel, error) { return fake, nil })
	if err := b.Supported(context.Background()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	fake.Fail = nil
	if err := b.Supported(context.Background()); err != nil {
		t.Error(err)
	}
	if left := fake.Tables(); len(left) != 0 {
		t.Errorf("the test left %d tables", len(left))
	}
}
