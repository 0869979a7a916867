package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/nettest/vm/guest"
)

// mountAll mounts the file systems that programs expect, below a root. What cannot be mounted is said and left out.
func mountAll(root string) {
	for _, m := range []struct{ typ, at, data string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"devpts", "/dev/pts", ""}, {"tmpfs", "/dev/shm", ""},
		{"tmpfs", "/tmp", "mode=1777"}, {"tmpfs", "/run", ""}, {"tmpfs", guest.OutDir, ""},
		{"cgroup2", "/sys/fs/cgroup", ""}, {"bpf", "/sys/fs/bpf", ""},
	} {
		at := root + m.at
		if have, err := os.ReadDir(at); m.at == "/tmp" && err == nil && len(have) > 0 {
			continue // files were put there
		}
		err := os.MkdirAll(at, 0o755)
		if err == nil {
			err = unix.Mount(m.typ, at, m.typ, 0, m.data)
		}
		if err != nil && err != unix.EBUSY {
			say("mount %s: %v", at, err)
		}
	}
	for _, l := range [][2]string{{"/proc/self/fd", "/dev/fd"}, {"/run", "/var/run"}, {"/proc/mounts", "/etc/mtab"}} {
		_ = os.MkdirAll(filepath.Dir(root+l[1]), 0o755) // what lacks shows in the program
		_ = os.Symlink(l[0], root+l[1])
	}
}

// rootFromDisk makes /dev/vda the root. The initramfs cannot stay it: a container runtime must be able to leave its root
// with pivot_root, which the kernel does not allow there.
func rootFromDisk() error {
	const root = "/disk"
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/dev/vda", root, "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount /dev/vda: %w", err)
	}
	for _, d := range []string{"/vm", "/lib/modules"} { // modprobe goes on to need them
		if err := os.MkdirAll(root+d, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(d, root+d, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s: %w", d, err)
		}
	}
	if err := os.MkdirAll(root+"/sbin", 0o755); err != nil {
		return err
	}
	_ = os.Remove(root + "/sbin/modprobe")
	if err := os.Symlink("/vm/init", root+"/sbin/modprobe"); err != nil {
		return err
	}
	mountAll(root)
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return os.Chdir("/")
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}
