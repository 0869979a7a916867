package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/trace"
)

// marks are the letters that begin a cause's line.
var marks = map[flow.Severity]string{flow.Error: "E", flow.Warning: "W", flow.Info: "i"}

// Text writes the report for people.
func (r *Report) Text(w io.Writer, c trace.Colour) {
	for i := range r.Causes {
		f := &r.Causes[i]
		on := c.Bad
		if f.Severity != flow.Error {
			on = c.Dim
		}
		fmt.Fprintf(w, "%s%s %s%s %s: %s\n", on, marks[f.Severity], f.Code, c.Off, f.Object, f.Says())
		if len(f.Hits) > 0 {
			fmt.Fprintf(w, "    hits      %s\n", hits(f.Hits))
		}
		for _, e := range f.Evidence {
			fmt.Fprintf(w, "    evidence  %s\n", e)
		}
		for i, line := range strings.Split(f.Fix, "\n") {
			head := "fix"
			if i > 0 {
				head = ""
			}
			fmt.Fprintf(w, "    %-8s  %s\n", head, line)
		}
	}
	how := "as declared; no node was looked at"
	switch {
	case r.Asked > 0 && r.Asked == r.Nodes:
		how = "as declared, every node's own account, and the sockets of the Pods"
	case r.Asked > 0:
		how = fmt.Sprintf("as declared, the account of %d of %d nodes, and the sockets of their Pods", r.Asked, r.Nodes)
	}
	fmt.Fprintf(w, "i checked %s, %s, %s: %s\n", count(r.Services, "Service"), count(r.Ingresses, "Ingress"), count(r.Nodes, "node"), how)
	for _, n := range r.NotChecked {
		fmt.Fprintf(w, "not checked: %s\n", n)
	}
}

func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func hits(all []string) string {
	const most = 4
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}
