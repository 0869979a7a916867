package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// libraryFolders are where a dynamic loader looks without being told, in its order: Debian's and Ubuntu's folders of an
// architecture, then the common ones.
func libraryFolders() (out []string) {
	for _, pattern := range []string{"/lib/*-linux-*", "/usr/lib/*-linux-*", "/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		dirs, _ := filepath.Glob(pattern) // the patterns are well formed
		out = append(out, dirs...)
	}
	return out
}

// libraries gathers programs with all that the dynamic loader opens for them, each at the path where it is on this host.
type libraries struct {
	folders []string
	have    map[string]bool // names in the image
	files   []File
}

func newLibraries() *libraries { return &libraries{folders: libraryFolders(), have: map[string]bool{}} }

// link adds a symbolic link.
func (l *libraries) link(name, to string) {
	if !l.have[name] {
		l.have[name] = true
		l.files = append(l.files, File{Name: name, Link: to})
	}
}

// add adds a program or library, its loader and the libraries that it names; nothing is added when one of them is missing.
func (l *libraries) add(path string) error {
	fresh := &libraries{folders: l.folders, have: map[string]bool{}}
	if err := fresh.collect(path, l.have); err != nil {
		return fmt.Errorf("image: %s: %w", path, err)
	}
	for _, f := range fresh.files {
		l.have[f.Name] = true
	}
	l.files = append(l.files, fresh.files...)
	return nil
}

// collect follows what a file needs; what is in known is there already.
func (l *libraries) collect(path string, known map[string]bool) error {
	if l.have[path] || known[path] {
		return nil
	}
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	l.have[path] = true
	l.files = append(l.files, File{Name: path, From: path})
	needs, err := f.ImportedLibraries()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("read what it needs: %w", err)
	}
	dirs := append(runPaths(f, path), l.folders...)
	for _, need := range needs {
		at := find(dirs, need, f.Machine)
		if at == "" {
			return fmt.Errorf("it needs %s, which is in none of %s: %w", need, strings.Join(dirs, " "), fs.ErrNotExist)
		}
		if err := l.collect(at, known); err != nil {
			return err
		}
	}
	if loader := interpreter(f); loader != "" {
		return l.collect(loader, known)
	}
	return nil
}

// find returns the first library of that name that is for the machine, "" when there is none.
func find(dirs []string, name string, machine elf.Machine) string {
	for _, d := range dirs {
		path := filepath.Join(d, name)
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		fits := f.Machine == machine
		f.Close()
		if fits {
			return path
		}
	}
	return ""
}

// runPaths are the folders that a file itself names.
func runPaths(f *elf.File, path string) (out []string) {
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		lists, _ := f.DynString(tag) // most files have none
		for _, list := range lists {
			for _, d := range strings.Split(list, ":") {
				out = append(out, strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(d))
			}
		}
	}
	return out
}

// interpreter is the dynamic loader that a program names, "" for a library.
func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err == nil {
			return strings.TrimRight(string(b), "\x00")
		}
	}
	return ""
}

// isLink returns where a symbolic link to a neighbour leads, "" for anything else.
func isLink(path string) string {
	to, err := os.Readlink(path)
	if err != nil || strings.Contains(to, "/") {
		return ""
	}
	return to
}
