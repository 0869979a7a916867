// Package vm runs a program in a throw-away virtual machine: QEMU in software, Debian's cloud kernel and an initramfs made
// on the spot. It is for tests of what the kernel at hand may lack: IPVS, SCTP, netem, cgroup version 2 alone. It owns the
// machine from its making to its end; nothing is installed, nothing stays.
package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/podway/podway/internal/nettest/vm/guest"
)

// Machine is what to boot and what to run in it.
type Machine struct {
	Args    []string          // a program of the host and its arguments
	Env     []string          // K=V, beside PATH, HOME, TMPDIR and PODWAY_VM
	Dir     string            // working directory in the machine; "" = /
	Modules []string          // to be loaded at once; all others when the kernel asks for them
	Files   map[string]string // file or folder in the machine -> the one here that is copied
	Disk    string            // an ext4 image that becomes the root; "" = the initramfs stays it. Args[0] is then a path in it

	Kernel  string        // folder of a kernel package; "" = that of Kernel()
	Append  string        // more words for the kernel's command line
	CPUs    int           // 0 = 1; two froze in one run of twenty
	MiB     int           // 0 = 1024
	Timeout time.Duration // of the program, by the machine's clock; 0 = 2 minutes
	AtOnce  int           // parallel tests of Test; 0 = 1
	// Steady makes the machine's clock count instructions, one a nanosecond, while it computes: nothing in it runs out of
	// time however slow the host is. It costs twice the host's time, on one of its processors.
	Steady  bool
	Boot    time.Duration // until init is up; 0 = 2 minutes, 15 when Steady
	Silence time.Duration // a console without a word for so long means a frozen machine; 0 = 1 minute, 15 when Steady

	Out     io.Writer // the program's output
	Console string    // file for what the kernel says; "" = shown only when the machine fails
	OutDir  string    // where the files of the machine's /out go; "" = nowhere
}

// OutOfTime is the exit code of a program that ran longer than Timeout.
const OutOfTime = 124

// Run boots the machine and returns the program's exit code. An error means that the machine failed, not the program; one
// that did not come up or froze is booted once more first.
func (m Machine) Run(ctx context.Context) (int, error) {
	m.defaults()
	dir, err := os.MkdirTemp("", "podway-vm")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if m.Kernel == "" {
		if m.Kernel, err = Kernel(); err != nil {
			return 0, err
		}
	}
	if err := m.initramfs(ctx, filepath.Join(dir, "initrd")); err != nil {
		return 0, fmt.Errorf("vm: make the initramfs: %w", err)
	}
	var code int
	for range 2 {
		code, err = m.boot(ctx, dir)
		if !errors.Is(err, errNotUp) && !errors.Is(err, errFrozen) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("vm: %w\n%s", err, lastOf(filepath.Join(dir, "console"), 4000))
	}
	if m.OutDir != "" {
		return code, untar(filepath.Join(dir, "out"), m.OutDir)
	}
	return code, nil
}

func (m *Machine) defaults() {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	or(&m.Timeout, 2*time.Minute)
	if m.Steady {
		or(&m.Boot, 15*time.Minute)
		or(&m.Silence, 15*time.Minute)
	}
	or(&m.Boot, 2*time.Minute)
	or(&m.Silence, time.Minute)
	m.CPUs = max(m.CPUs, 1)
	if m.MiB == 0 {
		m.MiB = 1024
	}
	if m.Out == nil {
		m.Out = io.Discard
	}
	if m.Dir == "" {
		m.Dir = "/"
	}
}

// initramfs writes the first root of the machine.
func (m *Machine) initramfs(ctx context.Context, file string) error {
	c := newArchive()
	for _, d := range []string{"dev", "proc", "sys", "tmp", "run", "root", "etc", "var", guest.OutDir, m.Dir} {
		c.dir(d)
	}
	c.entry("dev/console", modeChar|0o600, nil, 5, 1) // opened before anything is mounted
	init := file + ".init"
	if err := buildInit(ctx, init); err != nil {
		return err
	}
	if err := c.program("vm/init", init); err != nil {
		return err
	}
	c.link("init", "vm/init")
	c.link("sbin/modprobe", "/vm/init")
	c.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"))
	c.file("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n"))
	c.file("etc/hosts", 0o644, []byte("127.0.0.1 localhost vm\n::1 localhost\n"))
	spec := guest.Spec{Args: m.Args, Env: m.Env, Dir: m.Dir, Seconds: m.Timeout.Seconds(), Disk: m.Disk != "",
		Modules: append([]string{"virtio_pci", "virtio_console"}, m.Modules...)}
	if spec.Disk {
		spec.Modules = append(spec.Modules, "virtio_blk", "ext4")
	} else {
		program := guest.BinDir + "/" + filepath.Base(m.Args[0])
		if err := c.program(program, m.Args[0]); err != nil {
			return err
		}
		spec.Args = append([]string{program}, m.Args[1:]...)
	}
	for at, from := range m.Files {
		if err := c.copy(at, from); err != nil {
			return err
		}
	}
	mods, err := scan(m.Kernel)
	if err != nil {
		return err
	}
	if err := mods.pack(c); err != nil {
		return err
	}
	if err := c.json(guest.SpecFile, spec); err != nil {
		return err
	}
	return os.WriteFile(file, c.end(), 0o600)
}

// buildInit builds vminit; the go command keeps what it compiled.
func buildInit(ctx context.Context, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", out, "github.com/podway/podway/internal/nettest/vm/vminit")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build vminit: %w\n%s", err, strings.TrimSpace(string(text)))
	}
	return nil
}
