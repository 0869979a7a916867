package doctor

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podway/podway/internal/flow"
)

var update = flag.Bool("update", false, "write docs/findings.md anew")

const page = "../../docs/findings.md"

func TestThePageOfFindingsIsUpToDate(t *testing.T) {
	want := Page()
	for _, c := range flow.Causes() {
		if strings.Count(want, "### "+string(c.Code)+"\n") != 1 {
			t.Errorf("%s of hop %q stands not once on the page: is the hop in places?", c.Code, c.Hop)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("docs/findings.md is not what the codes say (%v): go generate ./internal/doctor", err)
	}
}

func TestEveryCodeIsGivenBySomebody(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "flow/codes.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "flow" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names := codeNames(t)
	if len(names) != len(flow.Causes()) {
		t.Errorf("%d constants, %d causes", len(names), len(flow.Causes()))
	}
	for _, n := range names {
		if !used[n] {
			t.Errorf("flow.%s is given by nobody: use it or remove it", n)
		}
	}
}

// codeNames is the constants of type Code.
func codeNames(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../flow/codes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Code" {
					out = append(out, v.Names[0].Name)
				}
			}
		}
	}
	return out
}
