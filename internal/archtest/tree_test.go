package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/podway/podway/"

// file is one Go file of the root module.
type file struct {
	path    string // from the root, with slashes
	dir     string
	test    bool
	imports []string
	ast     *ast.File
	fset    *token.FileSet
	lines   int
}

// pkg is the folder of the file without the root: "internal/hop/dns".
func (f file) within(folder string) bool {
	return f.dir == folder || strings.HasPrefix(f.dir, folder+"/")
}

func tree(t *testing.T) []file {
	t.Helper()
	var out []file
	root := "../.."
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (rel == "lab" || rel == "bin" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && rel != ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		a, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		f := file{path: rel, dir: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(p, "_test.go"), ast: a, fset: fset,
			lines: fset.Position(a.FileEnd).Line}
		for _, i := range a.Imports {
			s, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, s)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d Go files: the walk is wrong", len(out))
	}
	return out
}

// isStandard tells standard library imports by the missing dot in their first element.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
