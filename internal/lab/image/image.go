// Package image writes container images that hold one static program and nothing else, as OCI archives, and reads the
// names out of archives that others wrote. It needs no registry, no container runtime and no network.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Image is one program as an image.
type Image struct {
	Name       string   // full reference, for example podway.local/echo:dev
	Binary     string   // path of the program; in the image it is /<base name of Program>
	Program    string   // path in the image, by default /<base name of Binary>
	Entrypoint []string // by default the program
	Env        []string // PATH is added
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar" // not compressed: it is read back on the same machine
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// Digest is the manifest's digest: equal programs under equal names have equal ones.
func (i Image) Digest() (string, error) {
	p, err := i.build()
	if err != nil {
		return "", err
	}
	return digest(p.manifest), nil
}

type parts struct{ layer, config, manifest []byte }

func (i Image) build() (parts, error) {
	var p parts
	program := i.Program
	if program == "" {
		program = "/" + filepath.Base(i.Binary)
	}
	data, err := os.ReadFile(i.Binary)
	if err != nil {
		return p, fmt.Errorf("image: %w", err)
	}
	if p.layer, err = layer(program, data); err != nil {
		return p, fmt.Errorf("image: %s: %w", i.Name, err)
	}
	entrypoint := i.Entrypoint
	if len(entrypoint) == 0 {
		entrypoint = []string{program}
	}
	p.config, err = json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": entrypoint, "WorkingDir": "/",
			"Env": append([]string{"PATH=/:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"}, i.Env...),
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(p.layer)}},
	})
	if err != nil {
		return p, fmt.Errorf("image: %s: %w", i.Name, err)
	}
	p.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": describe(configType, p.config), "layers": []descriptor{describe(layerType, p.layer)},
	})
	if err != nil {
		return p, fmt.Errorf("image: %s: %w", i.Name, err)
	}
	return p, nil
}

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(b), Size: int64(len(b))}
}

// layer holds the program and the folders without which common libraries fail. Times are zero: same input, same digest.
func layer(program string, data []byte) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(len(data) + 8192)
	w := tar.NewWriter(&b)
	for _, d := range []tar.Header{{Name: "tmp/", Mode: 0o1777}, {Name: "etc/", Mode: 0o755}, {Name: "run/", Mode: 0o755}} {
		d.Typeflag = tar.TypeDir
		if err := w.WriteHeader(&d); err != nil {
			return nil, err
		}
	}
	if err := writeFile(w, program[1:], 0o755, data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeFile(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// Write writes the image as an OCI archive.
func (i Image) Write(to io.Writer) error {
	p, err := i.build()
	if err != nil {
		return err
	}
	m := describe(manifestType, p.manifest)
	m.Platform = &platform{Architecture: runtime.GOARCH, OS: "linux"}
	m.Annotations = map[string]string{"io.containerd.image.name": i.Name, "org.opencontainers.image.ref.name": i.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{m}})
	if err != nil {
		return fmt.Errorf("image: %s: %w", i.Name, err)
	}
	w := tar.NewWriter(to)
	entries := []struct {
		name string
		data []byte
	}{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index}}
	for _, blob := range [][]byte{p.manifest, p.config, p.layer} {
		entries = append(entries, struct {
			name string
			data []byte
		}{"blobs/sha256/" + digest(blob)[len("sha256:"):], blob})
	}
	for _, e := range entries {
		if err := writeFile(w, e.name, 0o644, e.data); err != nil {
			return fmt.Errorf("image: write %s: %w", i.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("image: write %s: %w", i.Name, err)
	}
	return nil
}

// Save writes the archive to a file, whole or not at all.
func (i Image) Save(path string) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	err = i.Write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path + ".new")
		return err
	}
	return os.Rename(path+".new", path)
}
