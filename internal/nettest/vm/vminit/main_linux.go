// Command vminit is process 1 and /sbin/modprobe of the virtual machines of package vm. As process 1 it mounts what a
// program expects, runs the one that /vm/spec.json names, sends /out back and powers off. As modprobe it loads what the
// kernel asks for, so that devices, nftables expressions, schedulers and netlink families are there as on an installed
// system. It is no init for anything else.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/nettest/vm/guest"
)

func main() {
	if os.Getpid() != 1 || filepath.Base(os.Args[0]) == "modprobe" {
		os.Exit(modprobe(os.Args[1:]))
	}
	code, err := boot()
	fmt.Printf("\n") // the console may be within a line
	if err != nil {
		say("%s%v", guest.Fails, err)
	} else {
		say("%s%d", guest.Exit, code)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		say("power off: %v", err)
	}
	select {}
}

func say(format string, a ...any) { fmt.Printf(guest.Say+format+"\n", a...) }

func boot() (int, error) {
	mountAll("")
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return 0, err
	}
	spec, err := guest.Read[guest.Spec](guest.SpecFile)
	if err != nil {
		return 0, err
	}
	say(guest.Up)
	go func() {
		for range time.Tick(time.Second) {
			say(guest.Alive)
		}
	}()
	l, err := newLoader()
	if err != nil {
		return 0, err
	}
	for _, m := range spec.Modules {
		if err := l.load(m); err != nil {
			return 0, err
		}
	}
	if err := loopbackUp(); err != nil {
		return 0, err
	}
	stdio, err := port(guest.StdioPort)
	if err != nil {
		return 0, err
	}
	out, err := port(guest.OutPort)
	if err != nil {
		return 0, err
	}
	if spec.Disk {
		if err := rootFromDisk(); err != nil {
			return 0, err
		}
	}
	code, err := run(spec, stdio)
	if err != nil {
		return 0, err
	}
	return code, sendTar(out, guest.OutDir)
}

// run starts the program, takes in every orphan meanwhile, and returns its exit code as a shell would; 124 = out of time.
func run(spec *guest.Spec, stdio *os.File) (int, error) {
	c := exec.Command(spec.Args[0], spec.Args[1:]...)
	c.Stdout, c.Stderr, c.Dir = stdio, stdio, spec.Dir
	c.Env = append([]string{"PATH=" + guest.BinDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp", guest.EnvInside + "=1"}, spec.Env...)
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", strings.Join(spec.Args, " "), err)
	}
	late := make(chan struct{})
	if spec.Seconds > 0 {
		time.AfterFunc(time.Duration(spec.Seconds*float64(time.Second)), func() {
			close(late)
			_ = c.Process.Signal(unix.SIGQUIT) // a Go program tells where it stands
			time.Sleep(3 * time.Second)
			_ = c.Process.Kill()
		})
	}
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case pid == c.Process.Pid:
			select {
			case <-late:
				return 124, nil
			default:
			}
			if ws.Signaled() {
				return 128 + int(ws.Signal()), nil
			}
			return ws.ExitStatus(), nil
		}
	}
}
