package flow

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

func TestEveryCodeIsDescribedOnceAndInOrder(t *testing.T) {
	pattern, last := regexp.MustCompile(`^PW-\d{4}$`), Code("")
	for _, c := range Causes() {
		if !pattern.MatchString(string(c.Code)) || c.Code <= last {
			t.Errorf("code %q after %q: want PW-nnnn, ascending", c.Code, last)
		}
		last = c.Code
		if c.Hop == "" || c.Title == "" || c.Meaning == "" || c.Fix == "" {
			t.Errorf("%s lacks a field: %+v", c.Code, c)
		}
		if strings.HasSuffix(c.Title, ".") || !strings.HasSuffix(c.Meaning, ".") {
			t.Errorf("%s: a title has no final dot, a meaning has one", c.Code)
		}
	}
	if _, ok := CauseOf(SelectorNoPod); !ok {
		t.Error("SelectorNoPod is not in the table")
	}
}

func TestVerdictsAreTheSameWhenTheSenderCannotTellThemApart(t *testing.T) {
	a := Verdict{Action: Forward, Targets: SortTargets([]netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.2:80"), netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:80")})}
	b := a
	b.Why, b.Device = "other words", "eth7"
	if !a.Same(b) {
		t.Error("words must not count")
	}
	b.Masquerade = true
	if a.Same(b) {
		t.Error("the source address counts")
	}
	if got, want := a.String(), "forward 10.0.0.1:80 10.0.0.2:80"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
