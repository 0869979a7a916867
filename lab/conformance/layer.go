package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// layer is the image's file system as a tar.
func (i image) layer(ctx context.Context, root, module string) ([]byte, error) {
	l := layer{dirs: map[string]bool{}}
	l.w = tar.NewWriter(&l.b)
	for _, d := range []string{"/tmp", "/etc", "/run", "/uploads", "/var/tmp"} {
		l.dir(d)
	}
	l.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
	l.text("/etc/group", "root:x:0:\nuser:x:1000:\nwww-data:x:33:\nnogroup:x:65534:\n")
	l.text("/etc/nsswitch.conf", "hosts: files dns\n")
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	l.file("/bin/busybox", busybox)
	// Not busybox's shell, which takes its own applets before the programs beside it.
	dash, err := exec.LookPath("dash")
	if err != nil {
		return nil, err
	}
	l.program(ctx, "/bin/sh", dash)
	for _, t := range i.tools {
		path, err := exec.LookPath(t)
		if err != nil {
			return nil, err
		}
		l.program(ctx, "/bin/"+t, path)
	}
	for _, a := range applets {
		if !slices.Contains(i.tools, a) {
			l.link("/bin/"+a, "/bin/busybox")
		}
	}
	for at, from := range i.files {
		l.file(at, filepath.Join(root, from))
	}
	for at, from := range i.source {
		l.file(at, filepath.Join(module, from))
	}
	for at, text := range i.text {
		l.text(at, text)
	}
	if l.err == nil {
		l.err = l.w.Close()
	}
	return l.b.Bytes(), l.err
}

// layer collects files; the first error stays.
type layer struct {
	b    bytes.Buffer
	w    *tar.Writer
	dirs map[string]bool
	err  error
}

func (l *layer) put(h tar.Header, from io.Reader) {
	if l.err != nil || l.dirs[h.Name] {
		return
	}
	l.dir(filepath.Dir(h.Name))
	l.dirs[h.Name] = true
	h.Name = strings.TrimPrefix(h.Name, "/")
	if l.err = l.w.WriteHeader(&h); l.err == nil && from != nil {
		_, l.err = io.Copy(l.w, from)
	}
}

func (l *layer) dir(path string) {
	if path == "/" || l.dirs[path] {
		return
	}
	l.put(tar.Header{Typeflag: tar.TypeDir, Name: path, Mode: 0o1777}, nil)
}

func (l *layer) text(path, text string) {
	l.put(tar.Header{Name: path, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text))
}

func (l *layer) link(path, to string) {
	l.put(tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: to, Mode: 0o777}, nil)
}

func (l *layer) file(path, from string) {
	if l.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		l.err = err
		return
	}
	defer f.Close()
	var st fs.FileInfo
	if st, l.err = f.Stat(); l.err == nil {
		l.put(tar.Header{Name: path, Mode: 0o755, Size: st.Size()}, f)
	}
}

// program puts a program and the shared libraries that it names.
func (l *layer) program(ctx context.Context, path, from string) {
	l.file(path, from)
	out, err := exec.CommandContext(ctx, "ldd", from).Output()
	if err != nil {
		return // static, or a script
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			l.file(word, word)
		}
	}
	for _, lib := range []string{"libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"} { // opened by name at run time
		if m, _ := filepath.Glob("/lib/*-linux-gnu/" + lib); len(m) > 0 {
			l.file(m[0], m[0])
		}
	}
}
