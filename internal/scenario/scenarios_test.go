package scenario

import (
	"path/filepath"
	"testing"
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
func checkAll(t *testing.T, l Level, w Maker) {
	for _, f := range all(t) {
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

func TestEveryScenarioHoldsForTheRules(t *testing.T) { checkAll(t, Rules, RulesWorld) }
