package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podway/podway/internal/lab/image"
	"github.com/podway/podway/internal/lab/spec"
)

// builtin is an image that is made of a program beside podway.
type builtin struct {
	name, program string
	optional      bool
}

func builtins(c spec.Cluster) []builtin {
	all := []builtin{
		{"podway.local/pause:1", filepath.Join(filepath.Dir(c.Podway), "pause"), false},
		{"podway.local/echo:dev", filepath.Join(filepath.Dir(c.Podway), "echo"), true},
	}
	if c.Networking == spec.NetworkingPodway {
		all = append(all, builtin{"podway.local/podway:dev", c.Podway, false})
	}
	return all
}

// SaveImages makes the archives of podway's own images in the lab's folder, where they are missing or older than their
// program, and returns the paths of the new ones.
func SaveImages(c spec.Cluster) ([]string, error) {
	if err := os.MkdirAll(c.Images(), 0o755); err != nil {
		return nil, fmt.Errorf("lab: images: %w", err)
	}
	var made []string
	for _, b := range builtins(c) {
		st, err := os.Stat(b.program)
		if errors.Is(err, os.ErrNotExist) && b.optional {
			continue
		}
		if err != nil {
			return made, fmt.Errorf("lab: image %s: %w; build it and put it beside podway", b.name, err)
		}
		archive := filepath.Join(c.Images(), filepath.Base(b.program)+".tar")
		if have, err := os.Stat(archive); err == nil && have.ModTime().Equal(st.ModTime()) {
			continue
		}
		if err := image.CheckStatic(b.program); err != nil {
			return made, fmt.Errorf("lab: image %s: %w", b.name, err)
		}
		if err := (image.Image{Name: b.name, Binary: b.program}).Save(archive); err != nil {
			return made, fmt.Errorf("lab: image %s: %w", b.name, err)
		}
		if err := os.Chtimes(archive, st.ModTime(), st.ModTime()); err != nil {
			return made, fmt.Errorf("lab: image %s: %w", b.name, err)
		}
		made = append(made, archive)
	}
	return made, nil
}
