package routes

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFindEqualsTheRuleOfTheAPI compares with the rule as it is written down: exact first, then the longest prefix by
// whole elements, looked for one by one.
func TestFindEqualsTheRuleOfTheAPI(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	word := func() string { return []string{"a", "b", "ab", "a-b", "a.b", "", "ä", "zz"}[rnd.IntN(8)] }
	random := func() string {
		p := ""
		for range rnd.IntN(5) {
			p += "/" + word()
		}
		if p == "" {
			return "/"
		}
		return p
	}
	for range 3000 {
		places := map[string]*place{}
		for range rnd.IntN(20) {
			path, r := random(), &Route{}
			exact := rnd.IntN(2) == 0
			if !exact {
				path = strings.TrimSuffix(path, "/")
			}
			at := places[path]
			if at == nil {
				at = &place{path: path}
				places[path] = at
			}
			r.Path = path
			if exact {
				at.exact = r
			} else {
				at.prefix = r
			}
		}
		p := pathsOf(places)
		for range 30 {
			path := random()
			if got, want := p.find(path), slowFind(places, path); got != want {
				t.Fatalf("%q: got %+v, want %+v among %+v", path, got, want, p)
			}
		}
	}
}

func slowFind(places map[string]*place, path string) *Route {
	if x := places[path]; x != nil && x.exact != nil {
		return x.exact
	}
	var best *Route
	for _, x := range places {
		if x.prefix == nil || path != x.path && !strings.HasPrefix(path, x.path+"/") {
			continue
		}
		if best == nil || len(x.path) > len(best.Path) {
			best = x.prefix
		}
	}
	return best
}
