package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unpack reads an archive into memory, by name.
func unpack(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = b
	}
}

func blob(t *testing.T, files map[string][]byte, d descriptor, out any) []byte {
	t.Helper()
	b, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if !ok {
		t.Fatalf("no blob %s", d.Digest)
	}
	if digest(b) != d.Digest || int64(len(b)) != d.Size {
		t.Errorf("blob %s has digest %s, %d bytes of %d", d.Digest, digest(b), len(b), d.Size)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func program(t *testing.T, content string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "web")
	if err := os.WriteFile(p, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAnArchiveLeadsFromItsIndexToTheProgram(t *testing.T) {
	var b bytes.Buffer
	if err := (Image{Name: "podway.local/web:dev", Binary: program(t, "the program"), Env: []string{"A=b"}}).Write(&b); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, &b)
	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index: %v, %s", err, files["index.json"])
	}
	if n := index.Manifests[0].Annotations["io.containerd.image.name"]; n != "podway.local/web:dev" {
		t.Errorf("name %q", n)
	}
	var manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	blob(t, files, index.Manifests[0], &manifest)
	var config struct {
		Config struct{ Entrypoint, Env []string } `json:"config"`
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	blob(t, files, manifest.Config, &config)
	if diff := cmp.Diff([]string{"/web"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(config.Config.Env[0], "PATH=") || config.Config.Env[1] != "A=b" {
		t.Errorf("environment %q", config.Config.Env)
	}
	if len(manifest.Layers) != 1 || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Fatalf("layers %v, diff ids %v", manifest.Layers, config.RootFS.DiffIDs)
	}
	layer := unpack(t, bytes.NewReader(blob(t, files, manifest.Layers[0], nil)))
	if string(layer["web"]) != "the program" {
		t.Errorf("the layer holds %v", layer)
	}
	if _, ok := layer["tmp/"]; !ok {
		t.Error("no /tmp")
	}
	if got, err := (Image{Name: "podway.local/web:dev", Binary: program(t, "the program"), Env: []string{"A=b"}}).Digest(); err != nil || got != index.Manifests[0].Digest {
		t.Errorf("digest %s, want %s: %v", got, index.Manifests[0].Digest, err)
	}
}

func TestTheSameProgramMakesTheSameArchive(t *testing.T) {
	var archives [2]bytes.Buffer
	for i := range archives {
		if err := (Image{Name: "podway.local/web:dev", Binary: program(t, "same"), Program: "/web"}).Write(&archives[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("two archives of one program differ")
	}
}

func TestNamesAreReadFromArchives(t *testing.T) {
	ours := filepath.Join(t.TempDir(), "ours.tar")
	if err := (Image{Name: "podway.local/web:dev", Binary: program(t, "x")}).Save(ours); err != nil {
		t.Fatal(err)
	}
	archive := func(name, content string) string {
		path := filepath.Join(t.TempDir(), "a.tar")
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := writeFile(w, name, 0o644, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		path    string
		want    []string
		failure string
	}{
		"one of ours":        {path: ours, want: []string{"podway.local/web:dev"}},
		"one of docker save": {path: archive("manifest.json", `[{"Config":"c.json","RepoTags":["web:1","web:2"],"Layers":[]}]`), want: []string{"web:1", "web:2"}},
		"one without a name": {path: archive("manifest.json", `[{"Config":"c.json","Layers":[]}]`), failure: "no named image"},
		"a tar of something": {path: archive("hello.txt", "hello"), failure: "no named image"},
		"no tar":             {path: program(t, strings.Repeat("not a tar ", 200)), failure: "not an image archive"},
		"broken json":        {path: archive("index.json", `{"manifests":`), failure: "index.json"},
		"no file":            {path: "/nonexistent.tar", failure: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			info, err := Inspect(tt.path)
			if tt.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tt.failure) {
					t.Errorf("error %v, want %q", err, tt.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, info.Names); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamesThatARuntimeWouldRefuse(t *testing.T) {
	for name, good := range map[string]bool{
		"podway.local/web:dev": true, "localhost:5000/a/b:1.2-x": true,
		"web": false, "web:1": false, "podway.local/web": false, "podway.local/Web:1": false, "podway.local/web:": false, "": false,
	} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOnlyStaticLinuxProgramsFitAnEmptyImage(t *testing.T) {
	if err := CheckStatic(program(t, "#!/bin/sh\n")); err == nil || !strings.Contains(err.Error(), "not a Linux program") {
		t.Errorf("a script: %v", err)
	}
	for _, shell := range []string{"/bin/sh", "/usr/bin/env"} {
		if _, err := os.Stat(shell); err != nil {
			continue
		}
		if err := CheckStatic(shell); err == nil || !strings.Contains(err.Error(), "shared libraries") {
			t.Errorf("%s: %v", shell, err)
		}
		return
	}
	t.Error("this machine has no program with shared libraries to try")
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte("index.json"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if info, err := inspect(bytes.NewReader(b)); err == nil && len(info.Names) == 0 {
			t.Error("neither a name nor an error")
		}
	})
}
