package answers

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestATransferHoldsEveryRecordOfTheDomain(t *testing.T) {
	v := view(t, options, shop())
	var got []string
	for rr := range v.Records() {
		if !dns.IsSubDomain("cluster.local.", rr.Header().Name) || rr.Header().Rrtype == dns.TypeSOA {
			t.Errorf("%v does not belong here", rr)
		}
		got = append(got, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Error("a record comes twice")
	}
	for line := range strings.Lines(v.Text()) {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, " IN ") || strings.Contains(line, ".arpa.") {
			continue
		}
		if !slices.Contains(got, line) {
			t.Errorf("%s is missing", line)
		}
	}
	if soa, ok := v.SOA().(*dns.SOA); !ok || soa.Hdr.Name != "cluster.local." {
		t.Errorf("SOA: %v", v.SOA())
	}
	n := 0
	for range v.Records() {
		if n++; n == 2 {
			break
		}
	}
}
