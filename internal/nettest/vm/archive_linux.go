package vm

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// archive is a cpio archive of the kind "newc", as the kernel unpacks into its first root.
type archive struct {
	bytes.Buffer
	inodes int
	has    map[string]bool
}

func newArchive() *archive { return &archive{has: map[string]bool{}} }

const (
	modeFile = 0o100000
	modeDir  = 0o040000
	modeLink = 0o120000
	modeChar = 0o020000
)

func (c *archive) file(name string, perm uint32, data []byte) {
	c.entry(name, modeFile|perm, data, 0, 0)
}
func (c *archive) link(name, to string) { c.entry(name, modeLink|0o777, []byte(to), 0, 0) }
func (c *archive) dir(name string)      { c.entry(name, modeDir|0o755, nil, 0, 0) }

// entry adds one entry and the folders above it. What is there already stays.
func (c *archive) entry(name string, mode uint32, data []byte, major, minor int) {
	name = strings.TrimPrefix(name, "/")
	if name == "" || c.has[name] {
		return
	}
	if d := filepath.Dir(name); d != "." {
		c.dir(d)
	}
	c.has[name] = true
	c.inodes++
	c.header(c.inodes, mode, len(data), major, minor, name)
	c.Write(data)
	c.pad()
}

func (c *archive) header(ino int, mode uint32, size, major, minor int, name string) {
	c.WriteString("070701")
	for _, n := range []int{ino, int(mode), 0, 0, 1, 0, size, 0, 0, major, minor, len(name) + 1, 0} {
		fmt.Fprintf(c, "%08x", n)
	}
	c.WriteString(name + "\x00")
	c.pad()
}

func (c *archive) pad() {
	for c.Len()%4 != 0 {
		c.WriteByte(0)
	}
}

func (c *archive) end() []byte {
	c.header(0, 0, 0, 0, 0, "TRAILER!!!")
	return c.Bytes()
}

func (c *archive) json(name string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		c.file(name, 0o644, b)
	}
	return err
}

// copy adds a file or folder of the host.
func (c *archive) copy(guest, host string) error {
	return filepath.WalkDir(host, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(host, p)
		if err != nil {
			return err
		}
		at := filepath.Join(guest, rel)
		switch {
		case d.IsDir():
			c.dir(at)
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			c.link(at, to)
		case d.Type().IsRegular():
			fi, err := d.Info()
			if err != nil {
				return err
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			c.file(at, uint32(fi.Mode().Perm()), b)
		}
		return nil
	})
}

var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// program adds a program of the host with the libraries that it is linked to.
func (c *archive) program(guest, host string) error {
	b, err := os.ReadFile(host)
	if err != nil {
		return err
	}
	c.file(guest, 0o755, b)
	libs, err := Libraries(host)
	for _, l := range libs {
		if b, err := os.ReadFile(l); err != nil {
			return err
		} else {
			c.file(l, 0o755, b)
		}
	}
	return err
}

// Libraries lists the files that a dynamically linked program needs beside itself.
func Libraries(program string) (out []string, err error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, fmt.Errorf("vm: %s: %w", program, err)
	}
	defer f.Close()
	if f.Section(".interp") == nil {
		return nil, nil
	}
	text, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("vm: ldd %s: %w", program, err)
	}
	for _, m := range library.FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	return out, nil
}
