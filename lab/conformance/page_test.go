package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page may not say anything that the results do not.
func TestThePageIsWhatTheResultsSay(t *testing.T) {
	want, err := pageOf(".")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/conformance.md is not what lab/conformance/results say: run `go run . -page` in lab/conformance")
	}
}

func TestEveryResultHasARow(t *testing.T) {
	page, err := pageOf(".")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("results/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("results: %v, %v", files, err)
	}
	for _, f := range files {
		r, err := readResults(f)
		if err != nil {
			t.Fatal(err)
		}
		if r.Mode+".json" != filepath.Base(f) {
			t.Errorf("%s has the results of mode %s", f, r.Mode)
		}
		for _, s := range r.Specs {
			if n := strings.Count(page, "| "+cell(s.Name)+" |"); n != 1 {
				t.Errorf("%d rows for %s", n, s.Name)
			}
			if s.Result == failed && s.Why == "" {
				t.Errorf("%s: %s failed, and nothing says why", f, s.Name)
			}
		}
	}
}

func TestEveryGroupShowsItsOwnSpecs(t *testing.T) {
	for name, want := range map[string]string{
		"DNS should provide DNS for the cluster [Conformance]":                             "Conformance",
		"Networking Granular Checks: Services should function for pod-Service: http":       "Granular checks of Services",
		"Services should allow pods to hairpin back to themselves through services":        "Others",
		"Networking Granular Checks: Pods should function for intra-pod ... [Conformance]": "Conformance",
	} {
		if got := groups[groupOf(name)].title; got != want {
			t.Errorf("%s is in %q, want %q", name, got, want)
		}
	}
}
