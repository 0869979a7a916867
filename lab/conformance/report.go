package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// summary is what the tests reported.
type summary struct {
	passed, skipped int
	ok              []string
	failed          []failure
	took            time.Duration
}

type failure struct{ name, why string }

type junit struct {
	Suites []struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Status  string `xml:"status,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
			Error *struct {
				Message string `xml:"message,attr"`
			} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// readReport reads the JUnit files of a folder.
func readReport(dir string) (sum summary, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "junit*.xml"))
	if err != nil || len(files) == 0 {
		return sum, fmt.Errorf("no report in %s: see e2e.log beside it", dir)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return sum, err
		}
		var j junit
		if err := xml.Unmarshal(data, &j); err != nil {
			return sum, fmt.Errorf("%s: %w", f, err)
		}
		for _, s := range j.Suites {
			for _, c := range s.Cases {
				name, isSpec := strings.CutPrefix(c.Name, "[It] ")
				switch {
				case c.Failure != nil:
					sum.failed = append(sum.failed, failure{name, firstLine(c.Failure.Message)})
				case c.Error != nil:
					sum.failed = append(sum.failed, failure{name, firstLine(c.Error.Message)})
				case c.Skipped != nil || c.Status == "skipped":
					sum.skipped++
				case isSpec:
					sum.passed, sum.ok = sum.passed+1, append(sum.ok, name)
				}
			}
		}
	}
	slices.Sort(sum.ok)
	return sum, nil
}

func firstLine(s string) string {
	l, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return l
}

var conformant = regexp.MustCompile(`\[Conformance\]`)

// markdown is docs/conformance.md.
func (s summary) markdown(o *options) string {
	var b strings.Builder
	n := 0
	for _, name := range s.ok {
		if conformant.MatchString(name) {
			n++
		}
	}
	mode := o.mode
	if mode == "" {
		mode = "nftables"
	}
	fmt.Fprintf(&b, "# Kubernetes' own tests\n\nWritten by `make conformance`; do not edit. A cluster of %d nodes made by `podway up`, podway its only networking, the\nservice proxy in mode %s.\n\n", o.nodes, mode)
	fmt.Fprintf(&b, "    focus: %s\n    skip:  %s\n\n", o.focus, o.skip)
	fmt.Fprintf(&b, "| | |\n|---|---|\n| passed | %d, of them %d [Conformance] |\n| failed | %d |\n\n", s.passed, n, len(s.failed))
	if len(s.failed) > 0 {
		b.WriteString("## Failed\n\n")
		for _, f := range s.failed {
			fmt.Fprintf(&b, "- %s: %s\n", f.name, f.why)
		}
		b.WriteString("\n")
	}
	b.WriteString("## Passed\n\n")
	for _, name := range s.ok {
		fmt.Fprintf(&b, "- %s\n", name)
	}
	return b.String()
}
