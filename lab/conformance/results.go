package main

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The results of a spec.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped" // by the spec itself, after a look at the cluster
)

// spec is what came of one spec.
type spec struct {
	Name    string  `json:"name"` // without [sig-network]
	Result  string  `json:"result"`
	Seconds float64 `json:"seconds"`
	Why     string  `json:"why,omitempty"` // the first line of a failure, or of a skip
	Podway  string  `json:"podway"`        // version
	Date    string  `json:"date"`
}

// results is a file of results/: the newest result of each spec in one mode.
type results struct {
	Mode  string `json:"mode"`
	Nodes int    `json:"nodes"`
	Specs []spec `json:"specs"`
}

func readResults(path string) (r results, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// put adds specs, each in the place of the one with its name.
func (r *results) put(specs []spec) {
	r.Specs = slices.DeleteFunc(r.Specs, func(old spec) bool {
		return slices.ContainsFunc(specs, func(s spec) bool { return s.Name == old.Name })
	})
	r.Specs = append(r.Specs, specs...)
	slices.SortFunc(r.Specs, func(a, b spec) int { return cmp.Compare(a.Name, b.Name) })
}

func (r *results) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// count is the number of specs with each result.
func count(specs []spec) map[string]int {
	n := map[string]int{}
	for _, s := range specs {
		n[s.Result]++
	}
	return n
}

type text struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (t text) first() string { return firstLine(cmp.Or(strings.TrimSpace(t.Text), t.Message)) }

type junit struct {
	Cases []struct {
		Name    string  `xml:"name,attr"`
		Seconds float64 `xml:"time,attr"`
		Failure *text   `xml:"failure"`
		Error   *text   `xml:"error"`
		Skipped *text   `xml:"skipped"`
	} `xml:"testsuite>testcase"`
}

// readReport reads the JUnit file of the tests. Specs that were not asked for are in it as skipped without a reason. What is no
// spec (the suite's own start and end) counts only when it failed.
func readReport(dir string) ([]spec, error) {
	path := filepath.Join(dir, "junit_01.xml")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("no report: %w; the tests' log says more", err)
	}
	var j junit
	if err := xml.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []spec
	for _, c := range j.Cases {
		name, isSpec := strings.CutPrefix(c.Name, "[It] ")
		s := spec{Name: strings.TrimPrefix(name, "[sig-network] "), Result: passed, Seconds: float64(int(c.Seconds*10+0.5)) / 10}
		switch {
		case c.Failure != nil:
			s.Result, s.Why = failed, c.Failure.first()
		case c.Error != nil:
			s.Result, s.Why = failed, c.Error.first()
		case c.Skipped != nil:
			reason, given := strings.CutPrefix(c.Skipped.Message, "skipped - ")
			if !given {
				continue
			}
			s.Result, s.Why = skipped, firstLine(reason)
		case !isSpec:
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

// noise is what differs between two runs of the same failure.
var noise = regexp.MustCompile(`^\[FAILED\] `)

func firstLine(s string) string {
	l, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return noise.ReplaceAllString(l, "")
}
