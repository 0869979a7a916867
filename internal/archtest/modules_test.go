package archtest

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deps.txt anew")

func TestTheModuleFilesAreClean(t *testing.T) {
	for _, m := range []struct{ path, forbidden, why string }{
		{"../../go.mod", `(?m)^\s*replace\b`, "a replace makes the module impossible to import"},
		{"../../go.mod", `(?m)^\s*(require\s+)?k8s\.io/kubernetes\b`, "the real control plane lives in lab/; podway is a client of it"},
		{"../../lab/go.mod", `(?m)^\s*replace\b`, "pins of the staging modules are enough"},
		{"../../lab/go.mod", `(?m)^\s*(require\s+)?github\.com/podway/podway\s`, "lab and root meet at a kubeconfig, nowhere else"},
	} {
		b, err := os.ReadFile(m.path)
		if err != nil {
			t.Fatal(err)
		}
		if loc := regexp.MustCompile(m.forbidden).FindIndex(b); loc != nil {
			t.Errorf("%s: %q: %s", m.path, strings.TrimSpace(string(b[loc[0]:loc[1]])), m.why)
		}
	}
}

func TestDepsListsEveryModuleInTheBinary(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/podway")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	lines = slices.DeleteFunc(slices.Compact(lines), func(s string) bool { return strings.HasPrefix(s, strings.TrimSuffix(module, "/")) })
	want := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile("../../deps.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("../../deps.txt")
	if err != nil || string(got) != want {
		t.Errorf("deps.txt is not the list of modules in the binary (%v); review the new one: go test ./internal/archtest -run Deps -update", err)
	}
}
