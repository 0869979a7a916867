package image

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// place makes a folder out of the files of an image.
func place(t *testing.T, files []File) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		at := filepath.Join(root, f.Name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil && f.Link != "" {
			err = os.Symlink(f.Link, at)
		} else if err == nil {
			var b []byte
			if b, err = os.ReadFile(f.From); err == nil {
				err = os.WriteFile(at, b, 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheHostsIPTablesRunInAnImageThatHasNothingElse(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("changing the root folder needs root")
		}
		t.Skip("changing the root folder needs root")
	}
	files, err := IPTables()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no iptables on this machine: apt-get install iptables")
	}
	root := place(t, files)
	for _, tool := range []string{"iptables-nft", "iptables-nft-save", "ip6tables-nft-restore", "iptables-legacy", "ip6tables-legacy-save", "iptables"} {
		i := slices.IndexFunc(files, func(f File) bool { return filepath.Base(f.Name) == tool })
		if i < 0 {
			t.Errorf("no %s among %d files", tool, len(files))
			continue
		}
		cmd := exec.Command(files[i].Name, "--version")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), " v1.") {
			t.Errorf("%s --version: %v: %s", tool, err, out)
		}
	}
	restore(t, root, files)
}

// restore tests a rule with extensions of iptables, in a network namespace of its own.
func restore(t *testing.T, root string, files []File) {
	t.Helper()
	i := slices.IndexFunc(files, func(f File) bool { return filepath.Base(f.Name) == "iptables-nft-restore" })
	cmd := exec.Command(files[i].Name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWNET}
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader("*nat\n:A - [0:0]\n-A A -p tcp -m tcp --dport 80 -m comment --comment x -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.0.0.1:80\n" +
		"-A A -m mark --mark 0x1/0x1 -m addrtype --dst-type LOCAL -j MASQUERADE --random-fully\nCOMMIT\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("iptables-nft-restore: %v: %s", err, out.String())
	}
}

func TestAProgramsLibrariesComeWithItOnceEach(t *testing.T) {
	l := newLibraries()
	var shell string
	for _, path := range []string{"/bin/sh", "/usr/bin/env"} {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			shell = real
			break
		}
	}
	for range 2 {
		if err := l.add(shell); err != nil {
			t.Fatal(err)
		}
	}
	f, err := elf.Open(shell)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, file := range l.files {
		if slices.Contains(names, file.Name) {
			t.Errorf("%s is there twice", file.Name)
		}
		names = append(names, file.Name)
	}
	if loader := interpreter(f); loader == "" || !slices.Contains(names, loader) {
		t.Errorf("the loader %q is not in %v", loader, names)
	}
	needs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range needs {
		if !slices.ContainsFunc(names, func(s string) bool { return filepath.Base(s) == n }) {
			t.Errorf("%s is not in %v", n, names)
		}
	}
	l.folders = []string{t.TempDir()}
	fresh := &libraries{folders: l.folders, have: map[string]bool{}}
	if err := fresh.add(shell); err == nil || !strings.Contains(err.Error(), needs[0]) || len(fresh.files) > 0 {
		t.Errorf("without its libraries: %v, %d files", err, len(fresh.files))
	}
}

func TestFilesAndLinksAreInTheLayer(t *testing.T) {
	var b bytes.Buffer
	i := Image{Name: "podway.local/web:dev", Binary: program(t, "the program"), Files: []File{
		{Name: "/usr/sbin/tool", From: program(t, "a tool")}, {Name: "/usr/sbin/alias", Link: "tool"}}}
	if _, err := i.writeLayer(&b); err != nil {
		t.Fatal(err)
	}
	layer := unpack(t, &b)
	if _, ok := layer["usr/sbin/alias"]; !ok || string(layer["usr/sbin/tool"]) != "a tool" || string(layer["web"]) != "the program" {
		t.Errorf("the layer holds %v", layer)
	}
}
