package main

import (
	"os"
	"regexp"
	"testing"
)

// Every difference that is explained away stands in the document, and every key there is one that is looked for.
func TestTheDifferencesAreThoseOfTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(dns-[a-z-]+)`").FindAllStringSubmatch(string(doc), -1) {
		documented[m[1]] = true
	}
	for _, d := range differences {
		if !documented[d.key] {
			t.Errorf("%s is not in docs/differences.md", d.key)
		}
	}
	for key := range documented {
		found := false
		for _, d := range differences {
			found = found || d.key == key
		}
		if !found {
			t.Errorf("docs/differences.md has %s, which nothing looks for", key)
		}
	}
}

func TestADifferenceThatIsNotMeantIsSeen(t *testing.T) {
	s := random(newRand(1, 0))
	q := question{name: "svc-0.ns-0.svc.cluster.local.", typ: 1}
	address := answer{rcode: "NOERROR", records: []string{"svc-0.ns-0.svc.cluster.local. A 10.96.0.1"}}
	other := answer{rcode: "NOERROR", records: []string{"svc-0.ns-0.svc.cluster.local. A 10.96.0.2"}}
	missing := answer{rcode: "NXDOMAIN", authority: "SOA"}
	for _, pair := range [][2]answer{{address, other}, {address, missing}, {missing, address}} {
		if pair[0].equal(pair[1]) || explain(s, q, pair[0], pair[1]) != "" {
			t.Errorf("%v and %v pass as the same, or as %q", pair[0], pair[1], explain(s, q, pair[0], pair[1]))
		}
	}
}
