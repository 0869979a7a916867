package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runScenario(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = Main(append([]string{"scenario"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestScenarioRunCountsOnItsLastLineAndExitsByTheResult(t *testing.T) {
	code, out, stderr := runScenario(t, "run", "../../scenarios")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; code != ExitOK || !strings.HasSuffix(last, " passed, 0 failed") || len(lines) < 100 {
		t.Errorf("exit %d, %d lines, last %q, stderr %s", code, len(lines), last, stderr)
	}
	good, err := os.ReadFile("../../scenarios/no-endpoints.txtar")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, old, new string) string {
		p := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(p, []byte(strings.Replace(string(good), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	code, out, _ = runScenario(t, "run", "-q", write("wrong.txtar", "=> refused", "=> dropped"))
	if code != ExitBroken || !strings.HasPrefix(out, "FAIL ") || !strings.HasSuffix(out, ", 1 failed\n") {
		t.Errorf("a wrong expectation: exit %d\n%s", code, out)
	}
	code, out, stderr = runScenario(t, "run", write("bad.txtar", "=> refused", "=> refussed"))
	if code != ExitUsage || out != "" || !strings.Contains(stderr, "did you mean refused?") {
		t.Errorf("a bad file: exit %d, stdout %q, stderr %q", code, out, stderr)
	}
	if code, _, stderr = runScenario(t, "run", "--level", "kernle", "../../scenarios"); code != ExitUsage || !strings.Contains(stderr, "did you mean kernel?") {
		t.Errorf("a bad level: exit %d, stderr %q", code, stderr)
	}
}

func TestScenarioListSaysWhatEachProves(t *testing.T) {
	code, out, _ := runScenario(t, "list", "../../scenarios/hairpin.txtar")
	if code != ExitOK || !strings.Contains(out, "1 step, ") || !strings.Contains(out, " expectations\tA Pod reaches itself") {
		t.Errorf("exit %d: %s", code, out)
	}
}
