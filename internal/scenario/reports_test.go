package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var proofs = regexp.MustCompile("`(scenarios/[^`]+\\.txtar|internal/[^`:]+: Test[A-Za-z0-9]+)`")

// Every row of the tables has a proof that exists.
func TestTheReportsHaveTheirProofs(t *testing.T) {
	for _, file := range []string{"reports.md", "reports-dns.md"} {
		t.Run(file, func(t *testing.T) { checkReports(t, file) })
	}
}

func checkReports(t *testing.T, file string) {
	doc, err := os.ReadFile("../../docs/design/" + file)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| report |") {
			continue
		}
		rows++
		cells := strings.Split(line, " | ")
		found := proofs.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(found) == 0 {
			t.Errorf("no proof in %s", line)
		}
		for _, m := range found {
			folder, test, is := strings.Cut(m[1], ": ")
			if !is {
				if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
					t.Error(err)
				}
				continue
			}
			if !hasTest(t, filepath.Join("../..", folder), test) {
				t.Errorf("%s has no %s", folder, test)
			}
		}
	}
	if rows < 15 {
		t.Errorf("%d rows", rows)
	}
}

func hasTest(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "func "+test+"(") {
			return true
		}
	}
	return false
}
