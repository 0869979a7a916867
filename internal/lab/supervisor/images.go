package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podway/podway/internal/lab/image"
	"github.com/podway/podway/internal/lab/spec"
)

// builtin is an image that is made of a program beside podway, and of files of the host.
type builtin struct {
	name, program string
	optional      bool
	files         []image.File
}

func builtins(c spec.Cluster) []builtin {
	tools, err := image.IPTables() // mode iptables runs them; the others do without
	if err != nil {
		slog.Warn("iptables stays out of podway's image", "err", err)
	}
	return []builtin{
		{"podway.local/pause:1", filepath.Join(filepath.Dir(c.Podway), "pause"), false, nil},
		{"podway.local/echo:dev", filepath.Join(filepath.Dir(c.Podway), "echo"), true, nil},
		{"podway.local/podway:dev", c.Podway, false, tools}, // some of podway may run beside other networking too
	}
}

// SaveImages makes the archives of podway's own images in the lab's folder, where they are missing or made of other
// files, and returns the paths of the new ones.
func SaveImages(c spec.Cluster) ([]string, error) {
	if err := os.MkdirAll(c.Images(), 0o755); err != nil {
		return nil, fmt.Errorf("lab: images: %w", err)
	}
	var made []string
	for _, b := range builtins(c) {
		from, err := b.sources()
		if errors.Is(err, os.ErrNotExist) && b.optional {
			continue
		}
		if err != nil {
			return made, fmt.Errorf("lab: image %s: %w; build it and put it beside podway", b.name, err)
		}
		archive := filepath.Join(c.Images(), filepath.Base(b.program)+".tar")
		if have, err := os.ReadFile(archive + madeOf); err == nil && string(have) == from && exists(archive) {
			continue
		}
		if err := image.CheckStatic(b.program); err != nil {
			return made, fmt.Errorf("lab: image %s: %w", b.name, err)
		}
		if err := (image.Image{Name: b.name, Binary: b.program, Files: b.files}).Save(archive); err != nil {
			return made, fmt.Errorf("lab: image %s: %w", b.name, err)
		}
		if err := os.WriteFile(archive+madeOf, []byte(from), 0o644); err != nil {
			return made, fmt.Errorf("lab: image %s: %w", b.name, err)
		}
		made = append(made, archive)
	}
	return made, nil
}

// madeOf is what a file beside an archive is called that says which files the archive was made of.
const madeOf = ".from"

// sources says which files an image is made of, in which state.
func (b builtin) sources() (string, error) {
	var text strings.Builder
	for _, f := range append([]image.File{{Name: "program", From: b.program}}, b.files...) {
		fmt.Fprintf(&text, "%s %s", f.Name, f.Link)
		if f.From != "" {
			st, err := os.Stat(f.From)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "%s %d %s", f.From, st.Size(), st.ModTime().UTC().Format(time.RFC3339Nano))
		}
		text.WriteString("\n")
	}
	return text.String(), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
