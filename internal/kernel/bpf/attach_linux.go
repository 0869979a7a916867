package bpf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Attach implements Programs.
func (k *Conn) Attach(context.Context) (int, error) {
	n, err := k.pin()
	if err != nil {
		return n, err
	}
	if err := k.load(); err != nil {
		return n, err
	}
	for _, name := range k.c.Programs {
		changed, err := k.attach(name, k.progs[name])
		if err != nil {
			return n, fmt.Errorf("bpf: attach %s to %s: %w", name, k.c.Cgroup, explain(err))
		}
		if changed {
			n++
		}
	}
	return n, nil
}

// attach makes p the program that runs by the link's name.
func (k *Conn) attach(name string, p *ebpf.Program) (bool, error) {
	l, err := k.link(name)
	if err != nil {
		return false, err
	}
	if l != nil {
		defer l.Close()
		ours, err := k.runs(name, l, p)
		if ours || err != nil {
			return false, err
		}
		if here, err := k.isHere(l); err != nil {
			return false, err
		} else if here {
			if err := repin(k.progPin(name), p); err != nil {
				return false, err
			}
			return true, l.Update(p) // at once for every socket, without a moment of neither
		}
		if err := os.Remove(k.linkPin(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	if err := repin(k.progPin(name), p); err != nil {
		return false, err
	}
	fresh, err := link.AttachCgroup(link.CgroupOptions{Path: k.c.Cgroup, Attach: k.spec.Programs[name].AttachType, Program: p})
	if err != nil {
		return false, err
	}
	defer fresh.Close()
	return true, fresh.Pin(k.linkPin(name))
}

// link opens a pinned link; nil when there is none. That is asked of the file system, for which no capability is needed.
func (k *Conn) link(name string) (link.Link, error) {
	if _, err := os.Lstat(k.linkPin(name)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	l, err := link.LoadPinnedLink(k.linkPin(name), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return l, err
}

// isHere reports whether a link is attached to the control group. One that somebody detached is attached nowhere.
func (k *Conn) isHere(l link.Link) (bool, error) {
	info, err := l.Info()
	if err != nil {
		return false, err
	}
	var st unix.Stat_t
	if err := unix.Stat(k.c.Cgroup, &st); err != nil {
		return false, err
	}
	cg := info.Cgroup()
	return cg != nil && cg.CgroupId == st.Ino, nil
}

// runs reports whether a link runs the same instructions as p, or any when p is nil, with the same maps as are open.
func (k *Conn) runs(name string, l link.Link, p *ebpf.Program) (bool, error) {
	if here, err := k.isHere(l); !here || err != nil {
		return false, err
	}
	info, err := l.Info()
	if err != nil {
		return false, err
	}
	have, err := ebpf.LoadPinnedProgram(k.progPin(name), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer have.Close()
	is, err := have.Info()
	if err != nil {
		return false, err
	}
	if id, ok := is.ID(); !ok || id != info.Program {
		return false, nil
	}
	if p != nil {
		want, err := p.Info()
		if err != nil || want.Tag != is.Tag {
			return false, err
		}
	}
	return k.uses(is)
}

// uses reports whether a program's maps are all among the open ones.
func (k *Conn) uses(p *ebpf.ProgramInfo) (bool, error) {
	ids, _ := p.MapIDs()
	for name := range k.spec.Maps {
		m, err := k.open(name)
		if err != nil {
			return false, err
		}
		if m == nil {
			continue
		}
		info, err := m.Info()
		if err != nil {
			return false, err
		}
		if id, ok := info.ID(); ok {
			ids = slices.DeleteFunc(ids, func(x ebpf.MapID) bool { return x == id })
		}
	}
	return len(ids) == 0, nil
}

// Attached implements Programs.
func (k *Conn) Attached(context.Context) (out []string, err error) {
	for _, name := range k.c.Programs {
		l, err := k.link(name)
		if l == nil && err == nil {
			continue
		}
		ok := false
		if err == nil {
			ok, err = k.runs(name, l, k.progs[name])
			l.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("bpf: look at program %s: %w", name, explain(err))
		}
		if ok {
			out = append(out, name)
		}
	}
	return out, nil
}

// Remove implements Programs.
func (k *Conn) Remove(context.Context) error {
	k.forget()
	for _, name := range slices.Backward(k.c.Programs) {
		if err := k.detach(name); err != nil {
			return fmt.Errorf("bpf: detach %s: %w", name, err)
		}
	}
	rest, err := os.ReadDir(k.c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		for _, e := range rest {
			err = errors.Join(err, os.Remove(filepath.Join(k.c.Dir, e.Name())))
		}
		err = errors.Join(err, os.Remove(k.c.Dir))
	}
	if err != nil {
		return fmt.Errorf("bpf: remove %s: %w", k.c.Dir, err)
	}
	return nil
}

// detach ends a link at once, though another process may have it open still.
func (k *Conn) detach(name string) error {
	l, err := k.link(name)
	if l == nil || err != nil {
		return err
	}
	defer l.Close()
	if err := l.Detach(); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return os.Remove(k.linkPin(name))
}
