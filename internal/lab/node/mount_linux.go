package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mount mounts with an error that says what.
func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		what := fstype
		if what == "" {
			what = source
		}
		return fmt.Errorf("node: mount %s on %s: %w", what, target, err)
	}
	return nil
}

// bind makes source visible at target too, with what is mounted below it.
func bind(source, target string) error {
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

// bindReadOnly is bind, but nothing can be written through target.
func bindReadOnly(source, target string) error {
	if err := bind(source, target); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &attr)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.12: the mount itself, not those below it
		err = unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		return fmt.Errorf("node: make %s read-only: %w", target, err)
	}
	return nil
}

// bindFile binds a file over one that it makes.
func bindFile(source, target string) error {
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	f.Close()
	return mount(source, target, "", unix.MS_BIND, "")
}

func mkdirs(dirs ...string) error {
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("node: %w", err)
		}
	}
	return nil
}

// mirror shows the entries of a host's folder, read-only, in a folder that itself is new and can be written to.
// Files are left out: what lies in the root or in /opt as a file is data of the host.
func mirror(source, target string, except map[string]bool) error {
	entries, err := os.ReadDir(source)
	if errors.Is(err, os.ErrNotExist) {
		return mkdirs(target)
	}
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if err := mkdirs(target); err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join(source, e.Name()), filepath.Join(target, e.Name())
		if except[e.Name()] {
			continue
		}
		switch {
		case e.Type()&os.ModeSymlink != 0:
			link, err := os.Readlink(from)
			if err != nil {
				return fmt.Errorf("node: %w", err)
			}
			if err := os.Symlink(link, to); err != nil {
				return fmt.Errorf("node: %w", err)
			}
		case e.IsDir():
			if err := mkdirs(to); err != nil {
				return err
			}
			if err := bindReadOnly(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}
