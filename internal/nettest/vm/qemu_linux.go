package vm

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podway/podway/internal/nettest/vm/guest"
)

const qemu = "qemu-system-x86_64"

// commandLine leaves out what costs time on an emulated machine and makes a kernel that fails end at once.
const commandLine = "console=ttyS0 panic=-1 oops=panic quiet loglevel=4 mitigations=off nokaslr no_timer_check tsc=reliable " +
	"random.trust_cpu=on init_on_alloc=0 audit=0 lsm= cryptomgr.notests net.ifnames=0"

var (
	errNotUp  = errors.New("the machine did not come up")
	errFrozen = errors.New("the machine froze")
)

func (m *Machine) arguments(dir, kernel string) []string {
	threads := "multi"
	if m.Steady {
		threads = "single"
	}
	a := []string{"-M", "pc", "-accel", "tcg,thread=" + threads, "-cpu", "max", "-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.MiB),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-device", "virtio-serial-pci",
		"-chardev", "file,id=stdio,path=/proc/self/fd/3", "-device", "virtserialport,chardev=stdio,name=" + guest.StdioPort,
		"-chardev", "file,id=out,path=" + filepath.Join(dir, "out"), "-device", "virtserialport,chardev=out,name=" + guest.OutPort,
		"-kernel", kernel, "-initrd", filepath.Join(dir, "initrd"), "-append", strings.TrimSpace(commandLine + " " + m.Append)}
	if m.Steady {
		a = append(a, "-icount", "shift=0,sleep=on")
	}
	if m.Disk != "" {
		a = append(a, "-drive", "file="+m.Disk+",format=raw,if=virtio,cache=unsafe")
	}
	return a
}

// boot starts the machine once and follows its console to the end.
func (m *Machine) boot(ctx context.Context, dir string) (int, error) {
	kernels, err := filepath.Glob(filepath.Join(m.Kernel, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return 0, fmt.Errorf("kernel %s: want one boot/vmlinuz-*, have %v (%v)", m.Kernel, kernels, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, qemu, m.arguments(dir, kernels[0])...)
	// A test that is killed takes the machine with it. The kernel means the thread that started it, so that must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stderr = &said
	console, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	output, theirs, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer output.Close()
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return 0, err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(m.Out, output)
		copied <- err
	}()
	code, exited := m.follow(console, filepath.Join(dir, "console"), cancel)
	err = cmd.Wait()
	if e := <-copied; err == nil {
		err = e
	}
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, fmt.Errorf("%s: %w: %s", qemu, err, strings.TrimSpace(said.String()))
	case !exited:
		return 0, errors.New("the machine ended before the program did")
	}
	return code, nil
}

// follow reads the console until it ends, notes the exit code and cancels a machine that does not come up, freezes or
// outlives its program.
func (m *Machine) follow(console io.Reader, file string, cancel context.CancelCauseFunc) (code int, exited bool) {
	end := time.AfterFunc(m.Boot, func() { cancel(errNotUp) })
	defer end.Stop()
	frozen := time.AfterFunc(m.Boot, func() { cancel(errNotUp) })
	defer frozen.Stop()
	log := m.log(file)
	defer log.Close()
	lines := bufio.NewReader(console)
	for up := false; ; {
		line, err := lines.ReadString('\n')
		if up {
			frozen.Reset(m.Silence)
		}
		_, word, ours := strings.Cut(strings.TrimRight(line, "\r\n"), guest.Say)
		switch {
		case ours && word == guest.Up:
			up = true
			end.Stop()
			end = time.AfterFunc(m.limit(), func() { cancel(errors.New("the machine outlived its program's time")) })
			frozen.Stop()
			frozen = time.AfterFunc(m.Silence, func() { cancel(errFrozen) })
		case ours && strings.HasPrefix(word, guest.Exit):
			var e error
			code, e = strconv.Atoi(strings.TrimPrefix(word, guest.Exit))
			exited = e == nil
		case ours && strings.HasPrefix(word, guest.Fails):
			cancel(errors.New("init: " + strings.TrimPrefix(word, guest.Fails)))
		}
		if !ours || word != guest.Alive {
			_, _ = io.WriteString(log, line) // a full disk must not fail the machine
		}
		if err != nil {
			end.Stop()
			frozen.Stop()
			return code, exited
		}
	}
}

// limit is how long a machine that is up may run: its own clock ends the program before.
func (m *Machine) limit() time.Duration {
	if m.Steady {
		return 20 * m.Timeout
	}
	return m.Timeout + m.Boot
}

// log opens the file for the console, and the caller's beside it.
func (m *Machine) log(file string) io.WriteCloser {
	f, err := os.Create(file)
	if err != nil {
		return nopCloser{io.Discard}
	}
	if m.Console == "" {
		return f
	}
	g, err := os.OpenFile(m.Console, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return f
	}
	return both{f, g}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

type both [2]*os.File

func (b both) Write(p []byte) (int, error) {
	_, _ = b[1].Write(p)
	return b[0].Write(p)
}

func (b both) Close() error { return errors.Join(b[0].Close(), b[1].Close()) }

// lastOf returns the end of a file.
func lastOf(file string, n int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-n):])
}

// untar unpacks the files that the machine sent back.
func untar(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = root.MkdirAll(filepath.Dir(h.Name), 0o755)
		}
		if err != nil {
			return err
		}
		w, err := root.Create(h.Name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, tr); err != nil {
			w.Close()
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
}
