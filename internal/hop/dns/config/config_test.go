package config

import "testing"

func TestANameIsUnderAZoneAtWholeLabelsOnly(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		want       bool
	}{
		{"a.example.org.", "example.org.", true}, {"example.org.", "example.org.", true}, {"anexample.org.", "example.org.", false},
		{"org.", "example.org.", false}, {"example.org.", ".", true}, {".", ".", true}, {".", "org.", false},
	} {
		if got := Under(c.name, c.zone); got != c.want {
			t.Errorf("%s under %s: %v", c.name, c.zone, got)
		}
	}
	if got := Longest([]string{".", "b.c.", "a.b.c.", "c."}, "x.a.b.c."); got != "a.b.c." {
		t.Errorf("the longest zone is %q", got)
	}
	if got := Longest([]string{"b.c."}, "b.d."); got != "" {
		t.Errorf("none holds it, and it is %q", got)
	}
	if !Overlap("c.", "b.c.") || !Overlap("b.c.", "c.") || Overlap("a.c.", "b.c.") {
		t.Error("zones overlap when one is under the other")
	}
}

func TestFallthroughIsForItsZones(t *testing.T) {
	for _, c := range []struct {
		fall Fall
		want bool
	}{{Fall{}, false}, {Fall{On: true}, true}, {Fall{On: true, Zones: []string{"org."}}, true}, {Fall{On: true, Zones: []string{"com."}}, false}} {
		if got := c.fall.Through("a.org."); got != c.want {
			t.Errorf("%+v: %v", c.fall, got)
		}
	}
}

func TestTheBuiltInConfigurationForwardsWhatIsNotTheClusters(t *testing.T) {
	c := Default(Defaults{Domain: "cluster.local.", TTL: 5, To: []Target{{File: "/etc/resolv.conf"}}})
	b := c.Blocks[0]
	if len(c.Blocks) != 1 || b.Cluster.Pods != PodsDisabled || b.Forwards[0].Zone != "." || b.Cache == nil || b.At.String() != "built-in configuration" {
		t.Errorf("%+v", b)
	}
	if b = Default(Defaults{Domain: "cluster.local."}).Blocks[0]; len(b.Forwards) != 0 || b.Cache != nil {
		t.Errorf("%+v", b)
	}
	if got := (Note{At: Position{File: "Corefile", Line: 3}, Plugin: "loop", Text: "x"}).String(); got != "Corefile:3: loop: x" {
		t.Error(got)
	}
}
