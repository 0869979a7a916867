package vm

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/nettest/vm/guest"
)

// Inside reports whether this process runs in a machine of this package.
func Inside() bool { return os.Getenv(guest.EnvInside) != "" }

// Test runs the body of the calling test in a machine: the test binary itself is started there with this test alone, and
// its output and result are this test's. m.Args and m.Out are filled in; the package's folder testdata is there. A machine
// that cannot be had fails the test in CI (CI=true) and skips it elsewhere.
//
// What -run asks for of subtests holds in the machine too.
func Test(t *testing.T, m Machine, body func(t *testing.T)) {
	t.Helper()
	if Inside() {
		body(t)
		return
	}
	if _, err := Kernel(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var saw bytes.Buffer
	m.defaults()
	m.Dir, m.Out = dir, io.MultiWriter(t.Output(), &saw)
	m.Args = []string{os.Args[0], "-test.v", "-test.timeout=" + m.Timeout.String(), "-test.run=" + only(t.Name()), fmt.Sprintf("-test.parallel=%d", max(1, m.AtOnce))}
	m.Env = append(m.Env, "CI=true")
	files := map[string]string{}
	if _, err := os.Stat("testdata"); err == nil {
		files[filepath.Join(dir, "testdata")] = "testdata"
	}
	for at, from := range m.Files {
		files[at] = from
	}
	m.Files = files
	start := time.Now()
	code, err := m.Run(t.Context())
	switch {
	case err != nil:
		t.Fatal(err)
	case code != 0:
		t.Fatalf("in the machine the test ended with exit code %d", code)
	case !strings.Contains(saw.String(), "--- PASS: "+t.Name()+" "):
		t.Fatal("the machine did not run the test")
	}
	t.Logf("the machine ran for %s", time.Since(start).Round(100*time.Millisecond))
}

// only is a -run pattern for one test, with the part for subtests that this process was given.
func only(name string) string {
	pattern := fmt.Sprintf("^%s$", name)
	if f := flag.Lookup("test.run"); f != nil {
		if _, sub, ok := strings.Cut(f.Value.String(), "/"); ok {
			pattern += "/" + sub
		}
	}
	return pattern
}
