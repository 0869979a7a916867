package image

import (
	"archive/tar"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
)

// maxIndex bounds what is read of an archive's table of contents: the file may come from anywhere.
const maxIndex = 4 << 20

// Info is what an archive says of itself.
type Info struct {
	Names  []string // image references in it
	Digest string   // of the first manifest; empty for docker's older form
}

// Inspect reads an archive's names: an OCI archive's index.json, or docker save's manifest.json.
func Inspect(path string) (Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, fmt.Errorf("image: %w", err)
	}
	defer f.Close()
	info, err := inspect(f)
	if err != nil {
		return Info{}, fmt.Errorf("image: %s: %w", path, err)
	}
	return info, nil
}

func inspect(r io.Reader) (Info, error) {
	var docker Info
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Info{}, fmt.Errorf("not an image archive (docker save, or an OCI layout in a tar): %w", err)
		}
		switch h.Name {
		case "index.json":
			info, err := readIndex(io.LimitReader(t, maxIndex))
			if err != nil || len(info.Names) > 0 {
				return info, err
			}
		case "manifest.json":
			if docker, err = readDocker(io.LimitReader(t, maxIndex)); err != nil {
				return Info{}, err
			}
		}
	}
	if len(docker.Names) == 0 {
		return Info{}, errors.New("no named image in it; save it with a name and a tag")
	}
	return docker, nil
}

func readIndex(r io.Reader) (Info, error) {
	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.NewDecoder(r).Decode(&index); err != nil {
		return Info{}, fmt.Errorf("index.json: %w", err)
	}
	var info Info
	for _, m := range index.Manifests {
		if info.Digest == "" {
			info.Digest = m.Digest
		}
		if name := m.Annotations["io.containerd.image.name"]; name != "" {
			info.Names = append(info.Names, name)
		}
	}
	return info, nil
}

func readDocker(r io.Reader) (Info, error) {
	var images []struct {
		RepoTags []string `json:"RepoTags"`
	}
	if err := json.NewDecoder(r).Decode(&images); err != nil {
		return Info{}, fmt.Errorf("manifest.json: %w", err)
	}
	var info Info
	for _, i := range images {
		info.Names = append(info.Names, i.RepoTags...)
	}
	return info, nil
}

var reference = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+:[A-Za-z0-9_.-]+$`)

// CheckName says what is wrong with an image's name, before a container runtime says it less clearly.
func CheckName(name string) error {
	if !reference.MatchString(name) {
		return fmt.Errorf("image: %q is not a full name: want HOST/NAME:TAG, for example podway.local/web:dev", name)
	}
	return nil
}

// CheckStatic says whether a program runs in an image that holds nothing else.
func CheckStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("image: %s is not a Linux program: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("image: %s needs shared libraries, which an image of one file does not have; build it static (for Go: CGO_ENABLED=0)", path)
		}
	}
	return nil
}
