package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podway/podway/internal/lab/image"
	"github.com/podway/podway/internal/lab/spec"
)

func TestAnImageIsMadeAgainOnlyWhenAFileOfItIsAnother(t *testing.T) {
	self, err := os.Executable() // a static program, as podway's are
	if err != nil {
		t.Fatal(err)
	}
	if err := image.CheckStatic(self); err != nil {
		t.Fatalf("build the tests with CGO_ENABLED=0, as make does: %v", err)
	}
	bin := t.TempDir()
	for _, p := range []string{"podway", "pause"} {
		if err := os.Symlink(self, filepath.Join(bin, p)); err != nil {
			t.Fatal(err)
		}
	}
	c := spec.Cluster{Dir: t.TempDir(), Podway: filepath.Join(bin, "podway"), Networking: spec.NetworkingPodway}
	save := func(want ...string) {
		t.Helper()
		made, err := SaveImages(c)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range made {
			names = append(names, filepath.Base(m))
		}
		if !slices.Equal(names, want) {
			t.Errorf("made %v, want %v", names, want)
		}
	}
	save("pause.tar", "podway.tar")
	save()
	from := filepath.Join(c.Images(), "podway.tar"+madeOf)
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(from, b[:len(b)-2], 0o644); err != nil { // it was made of something else
		t.Fatal(err)
	}
	save("podway.tar")
	if err := os.Remove(filepath.Join(c.Images(), "pause.tar")); err != nil {
		t.Fatal(err)
	}
	save("pause.tar")
}
