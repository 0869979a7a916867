package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of keys in docs/proxy.md anew")

func TestTheTableOfKeysInTheDocsIsThatOfTheCode(t *testing.T) {
	const path, from, to = "../../../../docs/proxy.md", "| key | used | what it does |\n|---|---|---|\n", "\n## cleanup"
	var rows strings.Builder
	for _, k := range Keys {
		used := "yes"
		if k.Unused {
			used = "no"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", k.Path, used, k.Does)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), from)
	_, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	want := before + from + rows.String() + to + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(b) {
		t.Error("docs/proxy.md is not up to date: go test ./internal/hop/proxy/config -run Docs -update")
	}
}
