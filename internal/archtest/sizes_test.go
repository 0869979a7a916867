package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	mostFileLines = 500
	mostFuncLines = 80
)

// large are the files and functions that may be larger than the norm. This list may only shrink.
var large = map[string]bool{}

func TestFilesAndFunctionsAreOfAReadableSize(t *testing.T) {
	used := map[string]bool{}
	for _, f := range tree(t) {
		if f.test || strings.HasPrefix(path.Base(f.path), "zz_") {
			continue
		}
		if f.lines > mostFileLines {
			used[f.path] = true
			if !large[f.path] {
				t.Errorf("%s has %d lines, more than %d: split it along its meaning", f.path, f.lines, mostFileLines)
			}
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
			if name := f.path + ":" + fn.Name.Name; lines > mostFuncLines {
				used[name] = true
				if !large[name] {
					t.Errorf("%s has %d lines, more than %d: a function does one thing", name, lines, mostFuncLines)
				}
			}
		}
	}
	for name := range large {
		if !used[name] {
			t.Errorf("%s is no longer large: take it off the list", name)
		}
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	comment, seen := map[string]bool{}, map[string]string{}
	for _, f := range tree(t) {
		if f.test {
			continue
		}
		seen[f.dir] = f.path
		if f.ast.Doc != nil && len(strings.TrimSpace(f.ast.Doc.Text())) > 40 {
			comment[f.dir] = true
		}
	}
	for dir := range seen {
		if !comment[dir] {
			t.Errorf("package in %s has no package comment: say in one or two sentences what it owns and what it does not", dir)
		}
	}
}

func TestPackagesAreNamedForWhatTheyHold(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "shared", "base"}
	for _, f := range tree(t) {
		if slices.Contains(empty, f.ast.Name.Name) {
			t.Errorf("%s: package %s says nothing; use the noun of the field", f.path, f.ast.Name.Name)
		}
	}
}
