package doctor

import (
	"fmt"
	"strings"

	"github.com/podway/podway/internal/flow"
)

//go:generate go test -run TestThePageOfFindingsIsUpToDate -update .

// places are the headings of the page, in the order of the way, by the hop that a code names.
var places = []struct{ hop, title string }{
	{"dns", "Name"}, {"announce", "LoadBalancer address"}, {"ingress", "Ingress"}, {"proxy", "Service"},
	{"podnet", "Pod network"}, {"process", "Process"}, {"podway", "podway itself"},
}

// Page is docs/findings.md: every code that trace, doctor, events, logs and metrics may show.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Findings

Every cause that podway names has a code that never changes its meaning. The same code stands in ` + "`podway trace`, `podway doctor`" + `,
events, logs and metric labels. The command names the object and the facts of the case; this page says what the code means.

<!-- Generated from internal/flow/codes.go: go generate ./internal/doctor -->
`)
	for _, p := range places {
		fmt.Fprintf(&b, "\n## %s\n", p.title)
		for _, c := range flow.Causes() {
			if c.Hop == p.hop {
				fmt.Fprintf(&b, "\n### %s\n\n**%s%s.** %s\n\nTo mend it: %s\n", c.Code, strings.ToUpper(c.Title[:1]), c.Title[1:], c.Meaning, c.Fix)
			}
		}
	}
	return b.String()
}
