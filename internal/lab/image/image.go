// Package image writes container images that hold one static program, and where wanted programs of this host with their
// libraries, as OCI archives, and reads the names out of archives that others wrote. It needs no registry, no container
// runtime and no network.
package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Image is one program as an image.
type Image struct {
	Name       string   // full reference, for example podway.local/echo:dev
	Binary     string   // path of the program's file
	Program    string   // path in the image, by default /<base name of Binary>
	Entrypoint []string // by default the program
	Env        []string // PATH is added
	Files      []File   // of this host, beside the program
}

// File is a file or a symbolic link in an image.
type File struct {
	Name string // path in the image
	From string // the host's file; "" for a link
	Link string // where a link leads
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

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(b), Size: int64(len(b))}
}

// Digest is the manifest's digest: equal programs under equal names have equal ones.
func (i Image) Digest() (string, error) {
	p, err := i.plan()
	if err != nil {
		return "", err
	}
	return digest(p.manifest), nil
}

// parts is an image without its layer, which is written from the program's file each time: it may be large.
type parts struct {
	layer            descriptor
	config, manifest []byte
}

func (i Image) program() string {
	if i.Program != "" {
		return i.Program
	}
	return "/" + filepath.Base(i.Binary)
}

func (i Image) plan() (parts, error) {
	var p parts
	hash := sha256.New()
	size, err := i.writeLayer(hash)
	if err != nil {
		return p, fmt.Errorf("image: %s: %w", i.Name, err)
	}
	p.layer = descriptor{MediaType: layerType, Digest: fmt.Sprintf("sha256:%x", hash.Sum(nil)), Size: size}
	entrypoint := i.Entrypoint
	if len(entrypoint) == 0 {
		entrypoint = []string{i.program()}
	}
	p.config, err = json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": entrypoint, "WorkingDir": "/",
			"Env": append([]string{"PATH=/:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"}, i.Env...),
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{p.layer.Digest}},
	})
	if err != nil {
		return p, fmt.Errorf("image: %s: %w", i.Name, err)
	}
	p.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": describe(configType, p.config), "layers": []descriptor{p.layer},
	})
	if err != nil {
		return p, fmt.Errorf("image: %s: %w", i.Name, err)
	}
	return p, nil
}

// counter counts what goes through it.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}

// writeLayer writes the program, the other files, and the folders without which common libraries fail, and returns the layer's size.
// Times are zero: same input, same bytes.
func (i Image) writeLayer(to io.Writer) (int64, error) {
	c := &counter{to: to}
	w := tar.NewWriter(c)
	for _, d := range []tar.Header{{Name: "tmp/", Mode: 0o1777}, {Name: "etc/", Mode: 0o755}, {Name: "run/", Mode: 0o755}} {
		d.Typeflag = tar.TypeDir
		if err := w.WriteHeader(&d); err != nil {
			return 0, err
		}
	}
	for _, file := range append([]File{{Name: i.program(), From: i.Binary}}, i.Files...) {
		if err := file.write(w); err != nil {
			return 0, err
		}
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return c.n, nil
}

// write writes the file as one that everybody may read and execute.
func (f File) write(w *tar.Writer) error {
	h := tar.Header{Name: strings.TrimPrefix(f.Name, "/"), Mode: 0o755}
	if f.Link != "" {
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		return w.WriteHeader(&h)
	}
	from, err := os.Open(f.From)
	if err != nil {
		return err
	}
	defer from.Close()
	st, err := from.Stat()
	if err != nil {
		return err
	}
	h.Size = st.Size()
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err = io.Copy(w, from)
	return err
}

func writeFile(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func blobName(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

// Write writes the image as an OCI archive.
func (i Image) Write(to io.Writer) error {
	p, err := i.plan()
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
	if err := i.write(tar.NewWriter(to), p, index); err != nil {
		return fmt.Errorf("image: write %s: %w", i.Name, err)
	}
	return nil
}

func (i Image) write(w *tar.Writer, p parts, index []byte) error {
	for _, e := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index},
		{blobName(digest(p.manifest)), p.manifest}, {blobName(digest(p.config)), p.config},
	} {
		if err := writeFile(w, e.name, 0o644, e.data); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: blobName(p.layer.Digest), Mode: 0o644, Size: p.layer.Size}); err != nil {
		return err
	}
	if _, err := i.writeLayer(w); err != nil {
		return err
	}
	return w.Close()
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
