package ingress

import (
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/routes"
)

// findings remembers what is wrong with the Ingresses of the table in use. To gather it costs the whole table, so while
// a large table changes all the time it is done only as often as takes a twentieth of the time.
type findings struct {
	list  []flow.Finding
	stale bool
	took  time.Duration
	at    time.Time
}

const (
	findingsShare = 20
	cheapFindings = 5 * time.Millisecond
)

// due reports whether findings that may have changed may be gathered again.
func (f *findings) due(now time.Time) bool {
	return f.stale && (f.took <= cheapFindings || now.Sub(f.at) >= findingsShare*f.took)
}

// of returns the findings of a table; changed says whether it may have others than the last one.
func (f *findings) of(t *routes.Table, changed bool) []flow.Finding {
	f.stale = f.stale || changed
	now := time.Now()
	if !f.due(now) {
		return f.list
	}
	f.list = nil
	for _, list := range t.Findings() {
		f.list = append(f.list, list...)
	}
	slices.SortFunc(f.list, func(a, b flow.Finding) int {
		if c := strings.Compare(a.Object, b.Object); c != 0 {
			return c
		}
		if c := strings.Compare(string(a.Code), string(b.Code)); c != 0 {
			return c
		}
		return strings.Compare(a.Cause, b.Cause)
	})
	f.stale, f.at = false, time.Now()
	f.took = f.at.Sub(now)
	return f.list
}
