package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// A report as the tests write it: a spec of each result, one that was not asked for, and the suite's own start.
const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="6"><testsuite name="Kubernetes e2e suite" tests="6">
<testcase name="[SynchronizedBeforeSuite]" status="passed" time="0.5"></testcase>
<testcase name="[It] [sig-network] DNS works [Conformance]" status="passed" time="12.345"></testcase>
<testcase name="[It] [sig-network] Services fail" status="failed" time="3">
<failure type="failed">[FAILED] no route&#xA;In [It] at: service.go:1</failure></testcase>
<testcase name="[It] [sig-network] Services panic" status="panicked" time="0.04"><error message="nil map" type="panicked"></error></testcase>
<testcase name="[It] [sig-network] Services want zones" status="skipped" time="1"><skipped message="skipped - Requires 3 zones"></skipped></testcase>
<testcase name="[It] [sig-apps] Job" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
</testsuite></testsuites>`

func TestAReportIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "junit_01.xml"), []byte(report), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readReport(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []spec{
		{Name: "DNS works [Conformance]", Result: passed, Seconds: 12.3},
		{Name: "Services fail", Result: failed, Seconds: 3, Why: "no route"},
		{Name: "Services panic", Result: failed, Why: "nil map"},
		{Name: "Services want zones", Result: skipped, Seconds: 1, Why: "Requires 3 zones"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestANewResultTakesThePlaceOfTheOldOne(t *testing.T) {
	r := results{Mode: "nftables", Specs: []spec{{Name: "a", Result: failed}, {Name: "b", Result: passed}}}
	r.put([]spec{{Name: "c", Result: skipped}, {Name: "a", Result: passed}})
	path := filepath.Join(t.TempDir(), "results", "nftables.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	want := results{Mode: "nftables", Specs: []spec{{Name: "a", Result: passed}, {Name: "b", Result: passed}, {Name: "c", Result: skipped}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := count(got.Specs); n[passed] != 2 || n[skipped] != 1 || n[failed] != 0 {
		t.Errorf("counted %v", n)
	}
}
