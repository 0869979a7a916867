package trace

import (
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow/spelling"
	"github.com/podway/podway/internal/model"
)

// nearMiss is a Pod, or a Pod template, that the selector misses by one label.
type nearMiss struct{ what, want, has string }

// nearest finds what the Service's selector was probably meant to match: one label differs, and the difference looks like
// a slip: another case, a few letters, another key with the same value; or all other labels of a longer selector match.
func (x *Index) nearest(svc *model.Service) *nearMiss {
	var best *nearMiss
	score := 0
	consider := func(what string, labels map[string]string) {
		want, has, s := missedBy(svc.Selector, labels)
		if s > score {
			best, score = &nearMiss{what, want, has}, s
		}
	}
	for _, p := range x.podsOf(svc.Name.Namespace) {
		consider("Pod "+p.Name.Name, p.Labels)
	}
	for _, w := range x.workloads(svc.Name.Namespace) {
		consider("the template of "+w.Kind+" "+w.Name.Name, w.Labels)
	}
	return best
}

func (x *Index) podsOf(namespace string) []*model.Pod {
	var out []*model.Pod
	for p := range x.s.Pods.Values() {
		if p.Name.Namespace == namespace && !p.Terminal() {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *model.Pod) int { return strings.Compare(a.Name.Name, b.Name.Name) })
	return out
}

// missedBy returns the one selector label that the labels lack, what they have instead ("key: value" both), and how much it
// looks like a slip; 0 = no near miss.
func missedBy(selector, labels map[string]string) (want, has string, score int) {
	missing := ""
	for k, v := range selector {
		if labels[k] == v {
			continue
		}
		if missing != "" {
			return "", "", 0
		}
		missing = k
	}
	if missing == "" {
		return "", "", 0
	}
	v := selector[missing]
	want = missing + ": " + v
	score = 10 * (len(selector) - 1)
	if other, ok := labels[missing]; ok {
		d := spelling.Distance(strings.ToLower(v), strings.ToLower(other))
		if len(selector) > 1 || alike(v, other) {
			return want, missing + ": " + other, score + max(9-d, 1)
		}
		return "", "", 0
	}
	keys := make([]string, 0, len(labels))
	for k := range labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if labels[k] == v {
			return want, k + ": " + v, score + 1
		}
	}
	return "", "", 0
}

// alike reports whether one word is probably the other, mistyped.
func alike(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b || len(a) > 3 && len(b) > 3 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return true
	}
	return spelling.Distance(a, b) <= 1+min(len(a), len(b))/5
}

// closest is the word of the list that is alike and nearest, or "".
func closest(word string, list []string) string {
	best, at := "", 1<<30
	for _, w := range list {
		if d := spelling.Distance(strings.ToLower(word), strings.ToLower(w)); alike(word, w) && d < at {
			best, at = w, d
		}
	}
	return best
}
