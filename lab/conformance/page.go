package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// modes are those of the service proxy in the order of the page's columns.
var modes = []string{"nftables", "iptables", "ebpf", "ipvs"}

// groups are the page's tables; a spec is in the first that names it.
var groups = []struct {
	title, says string
	specs       *regexp.Regexp
}{
	{"Conformance", "What Kubernetes asks of the network of every conformant cluster: the specs `[sig-network] ... [Conformance]`.", regexp.MustCompile(`\[Conformance\]`)},
	{"Granular checks of Services", "Clients in Pods, on nodes and among the endpoints, through every kind of Service address. Left out are those of SCTP, which the\nkernel of the machine that the results are from lacks, and those of `[Feature:IPv6DualStack]`: `podway up` makes a cluster of IPv4.", regexp.MustCompile(`Granular Checks: Services`)},
	{"Others", "Specs of `[sig-network]` outside those groups that were asked for by name.", regexp.MustCompile(``)},
}

// pageOf is docs/conformance.md, from the results and the pinned version in the folder of this module.
func pageOf(folder string) (string, error) {
	version, err := pinned(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", err
	}
	var all []results
	for _, m := range modes {
		r, err := readResults(filepath.Join(folder, "results", m+".json"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		all = append(all, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Kubernetes' own tests\n\nWritten by `make conformance`; do not edit. The end-to-end tests of Kubernetes %s against the cluster of `podway up`, whose\nonly networking podway is: pod network, Services, DNS, endpoint controllers.\n\n", version)
	b.WriteString("| mode of the service proxy | passed | failed | skipped | nodes | date | podway |\n|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		n := count(r.Specs)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %s | %s |\n", r.Mode, n[passed], n[failed], n[skipped], r.Nodes,
			distinct(r.Specs, func(s spec) string { return s.Date }), distinct(r.Specs, func(s spec) string { return s.Podway }))
	}
	b.WriteString(how)
	for i, g := range groups {
		writeGroup(&b, i, g.title, g.says, all)
	}
	return b.String(), nil
}

const how = `
    make conformance                                            # the first two tables, in mode nftables
    make conformance MODE=iptables                              # in another mode
    make conformance FOCUS='\[sig-network\].*EndpointSlice'     # some specs; only shown, not written down

The tests and the server in their images (agnhost) are built from the pinned module; the other programs in the images (dig,
nslookup, curl, nc, a shell, nginx) are those of this machine's Debian packages. Two things differ from the published
images by that: the image that stands for musl holds programs of glibc too, so the DNS specs run both of their
halves on one C library, and programs have this distribution's versions. Seconds are those of a whole spec, with the start and the
end of its Pods, four specs at a time on two CPUs.
`

// writeGroup writes one table: a row for each spec, a column for each mode.
func writeGroup(b *strings.Builder, group int, title, says string, all []results) {
	cells := map[string]map[string]spec{}
	per := make([][]spec, len(all))
	for i, r := range all {
		for _, s := range r.Specs {
			if groupOf(s.Name) != group {
				continue
			}
			if cells[s.Name] == nil {
				cells[s.Name] = map[string]spec{}
			}
			cells[s.Name][r.Mode] = s
			per[i] = append(per[i], s)
		}
	}
	if len(cells) == 0 {
		return
	}
	var names []string
	for n := range cells {
		names = append(names, n)
	}
	slices.Sort(names)
	head, line := "| spec |", "|---|"
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", title, says)
	for i, r := range all {
		if len(per[i]) == 0 {
			continue
		}
		head, line = head+" "+r.Mode+" |", line+"---|"
		fmt.Fprintf(b, "- %s: %d of %d passed\n", r.Mode, count(per[i])[passed], len(per[i]))
	}
	b.WriteString("\n" + head + "\n" + line + "\n")
	var notes []string
	for _, name := range names {
		fmt.Fprintf(b, "| %s |", cell(name))
		for i, r := range all {
			if len(per[i]) == 0 {
				continue
			}
			s, ran := cells[name][r.Mode]
			if !ran {
				b.WriteString(" - |")
				continue
			}
			fmt.Fprintf(b, " %s, %.1f s |", s.Result, s.Seconds)
			if s.Result != passed {
				notes = append(notes, fmt.Sprintf("- %s, mode %s: %s %s", cell(name), r.Mode, s.Result, s.Why))
			}
		}
		b.WriteString("\n")
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(notes, "\n"))
	}
}

func groupOf(name string) int {
	return slices.IndexFunc(groups, func(g struct {
		title, says string
		specs       *regexp.Regexp
	}) bool {
		return g.specs.MatchString(name)
	})
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// distinct joins the values of the specs, each once.
func distinct(specs []spec, of func(spec) string) string {
	var out []string
	for _, s := range specs {
		out = append(out, of(s))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

var kubernetes = regexp.MustCompile(`(?m)^require k8s\.io/kubernetes (\S+)`)

func pinned(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	m := kubernetes.FindSubmatch(data)
	if m == nil {
		return "", fmt.Errorf("%s: no version of k8s.io/kubernetes", path)
	}
	return string(m[1]), nil
}
