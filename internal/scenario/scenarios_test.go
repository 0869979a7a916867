package scenario

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podway/podway/internal/hop/proxy/modes"
)

// all reads every scenario of the repository.
func all(t *testing.T) []*File {
	t.Helper()
	paths, err := filepath.Glob("../../scenarios/*.txtar")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d scenarios, %v", len(paths), err)
	}
	var out []*File
	for _, p := range paths {
		f, err := Load(p)
		if err != nil {
			t.Error(err)
			continue
		}
		out = append(out, f)
	}
	return out
}

// checkAll runs every scenario at a level, one subtest each.
func checkAll(t *testing.T, l Level, w Maker) { checkFiles(t, all(t), l, w) }

func checkFiles(t *testing.T, files []*File, l Level, w Maker) {
	for _, f := range files {
		t.Run(filepath.Base(f.Name), func(t *testing.T) {
			if l == Kernel {
				t.Parallel() // most of its time is waiting
			}
			sum, err := Run(t.Context(), f, l, w, func(r Result) {
				if !r.OK {
					t.Error(r)
				}
			})
			if err != nil {
				t.Error(err)
			}
			if sum.Passed+sum.Failed == 0 {
				t.Errorf("nothing is expected at level %s", l)
			}
		})
	}
}

func TestEveryScenarioHoldsForTheModel(t *testing.T) { checkAll(t, Model, ModelWorld) }

func TestEveryScenarioHoldsForTheRules(t *testing.T) {
	for _, mode := range modes.Names() {
		w, err := RulesWorld(mode)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(mode, func(t *testing.T) { checkAll(t, Rules, w) })
	}
	if _, err := RulesWorld("none"); err == nil {
		t.Error("an unknown proxy mode has rules")
	}
}

func TestTheExampleInTheDocumentHolds(t *testing.T) {
	doc, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "## A file\n")
	var example strings.Builder
	for line := range strings.Lines(rest) {
		text, indented := strings.CutPrefix(line, "    ")
		if !indented && strings.TrimSpace(line) != "" {
			break
		}
		if indented {
			example.WriteString(text)
		}
	}
	f, err := Parse("docs/scenarios.md", []byte(example.String()))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Run(t.Context(), f, Model, ModelWorld, func(r Result) {
		if !r.OK {
			t.Error(r)
		}
	})
	if err != nil || sum.Passed != 2 {
		t.Errorf("%s, %v", sum, err)
	}
}

func TestResultsAreCountedAndPrintedInTheOrderOfTheFiles(t *testing.T) {
	wrong := strings.Replace(shop, "=> pod cart-1 from pod web-0", "=> refused", 1)
	var files []*File
	for name, text := range map[string]string{"a.txtar": shop, "b.txtar": wrong} {
		f, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(x, y *File) int { return strings.Compare(x.Name, y.Name) })
	var out strings.Builder
	if RunAll(t.Context(), &out, files, Options{Level: Model, World: ModelWorld, AtOnce: 2}) {
		t.Error("a failure passed")
	}
	want := `ok   a.txtar:19  pod web-0 -> tcp cart.shop:80 => pod cart-1 from pod web-0
ok   a.txtar:20  [model rules] slices cart => pod cart-1:8080 ready
ok   a.txtar:27  pod web-0 -> tcp cart.shop:80 => refused
ok   a.txtar:31  slices shop/cart => none
FAIL b.txtar:19  pod web-0 -> tcp cart.shop:80 => refused: got pod shop/cart-1 from pod default/web-0, want refused
ok   b.txtar:20  [model rules] slices cart => pod cart-1:8080 ready
ok   b.txtar:27  pod web-0 -> tcp cart.shop:80 => refused
ok   b.txtar:31  slices shop/cart => none
7 passed, 1 failed
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
