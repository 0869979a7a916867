package vm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podway/podway/internal/nettest/vm/guest"
)

// modules are the kernel modules that go into an initramfs: where they are here, and the index for the guest.
type modules struct {
	guest.Index
	host map[string]string // module -> file here
}

// scan indexes the modules of an unpacked kernel package from what each says of itself, so that depmod is not needed.
func scan(kernel string) (*modules, error) {
	dirs, err := filepath.Glob(filepath.Join(kernel, "lib/modules/*"))
	if err == nil && len(dirs) == 0 {
		dirs, err = filepath.Glob(filepath.Join(kernel, "usr/lib/modules/*"))
	}
	if err != nil || len(dirs) != 1 {
		return nil, fmt.Errorf("kernel %s: want one folder lib/modules/VERSION, have %v (%v)", kernel, dirs, err)
	}
	m := &modules{host: map[string]string{}}
	m.Modules, m.Alias, m.Builtin = map[string]*guest.Module{}, map[string][]string{}, map[string]bool{}
	if err := m.builtin(dirs[0]); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(filepath.Join(dirs[0], "kernel"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(d.Name(), ".ko") {
			return err
		}
		rel, err := filepath.Rel(dirs[0], p)
		if err != nil || !wanted(rel) {
			return err
		}
		return m.add(p, rel)
	})
	slices.SortFunc(m.Patterns, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return m, err
}

// builtin reads what is in the kernel itself: "kernel/lib/crc32.ko" and "crc32c_generic.alias=crc32c".
func (m *modules) builtin(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		m.Builtin[guest.Name(strings.TrimSuffix(filepath.Base(lines.Text()), ".ko"))] = true
	}
	b, err = os.ReadFile(filepath.Join(dir, "modules.builtin.modinfo"))
	if err != nil {
		return err
	}
	for kv := range strings.SplitSeq(string(b), "\x00") {
		k, v, _ := strings.Cut(kv, "=")
		if strings.HasSuffix(k, ".alias") && !strings.ContainsAny(v, "*?[") {
			m.Builtin[guest.Name(v)] = true
		}
	}
	return nil
}

// add indexes one module by its section .modinfo.
func (m *modules) add(file, rel string) error {
	b, err := readModule(file)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s := f.Section(".modinfo")
	if s == nil {
		return fmt.Errorf("%s: no section .modinfo", file)
	}
	info, err := s.Data()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	rel, _, _ = strings.Cut(rel, ".ko")
	name := guest.Name(filepath.Base(rel))
	mod := &guest.Module{File: "/lib/modules/" + rel + ".ko"}
	m.Modules[name], m.host[name] = mod, file
	for kv := range strings.SplitSeq(string(info), "\x00") {
		switch k, v, _ := strings.Cut(kv, "="); k {
		case "depends":
			for d := range strings.SplitSeq(v, ",") {
				if d != "" {
					mod.Depends = append(mod.Depends, guest.Name(d))
				}
			}
		case "softdep":
			mod.Depends = append(mod.Depends, soft(v)...)
		case "alias":
			m.alias(guest.Name(v), name)
		}
	}
	return nil
}

// soft returns the modules of "pre: crc32c post: x" that come first. libcrc32c is of no use without its one.
func soft(v string) (out []string) {
	pre := false
	for w := range strings.FieldsSeq(v) {
		if strings.HasSuffix(w, ":") {
			pre = w == "pre:"
		} else if pre {
			out = append(out, "~"+guest.Name(w))
		}
	}
	return out
}

// alias leaves out those of hardware, which are most.
func (m *modules) alias(alias, name string) {
	if strings.ContainsRune(alias, ':') && !strings.HasPrefix(alias, "virtio:") {
		return
	}
	if strings.ContainsAny(alias, "*?[") {
		m.Patterns = append(m.Patterns, [2]string{alias, name})
	} else {
		m.Alias[alias] = append(m.Alias[alias], name)
	}
}

// wanted leaves out drivers and file systems that no test needs: they only make the initramfs larger.
func wanted(rel string) bool {
	for _, no := range []string{"kernel/net/bluetooth/", "kernel/net/mac80211/", "kernel/net/wireless/"} {
		if strings.HasPrefix(rel, no) {
			return false
		}
	}
	for _, yes := range []string{"kernel/net/", "kernel/crypto/", "kernel/lib/", "kernel/arch/x86/crypto/", "kernel/drivers/virtio/", "kernel/drivers/char/virtio",
		"kernel/drivers/block/virtio_blk", "kernel/drivers/block/loop", "kernel/fs/overlayfs/", "kernel/fs/ext4/", "kernel/fs/jbd2/", "kernel/fs/mbcache"} {
		if strings.HasPrefix(rel, yes) {
			return true
		}
	}
	net, ok := strings.CutPrefix(rel, "kernel/drivers/net/")
	dir, _, sub := strings.Cut(net, "/")
	return ok && (!sub || slices.Contains([]string{"wireguard", "ipvlan", "bonding", "vxlan", "team"}, dir))
}

func readModule(file string) ([]byte, error) {
	switch filepath.Ext(file) {
	case ".xz":
		return exec.Command("xz", "-dc", file).Output()
	case ".zst":
		return exec.Command("zstd", "-qdc", file).Output()
	}
	return os.ReadFile(file)
}

// slim leaves out what only costs time on an emulated machine: the signature, which the kernel would verify though it does
// not ask for one, and the type data, the first of which would make it parse those of the whole kernel.
func slim(b []byte) []byte {
	const magic = "~Module signature appended~\n"
	if rest, ok := bytes.CutSuffix(b, []byte(magic)); ok && len(rest) > 12 {
		size := int(binary.BigEndian.Uint32(rest[len(rest)-4:]))
		b = rest[:max(0, len(rest)-12-size)]
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil || len(b) < 64 {
		return b
	}
	headers, names := int(binary.LittleEndian.Uint64(b[40:])), int(binary.LittleEndian.Uint16(b[62:]))
	for i, s := range f.Sections {
		if s.Name == ".BTF" { // another name makes the kernel pass it by
			at := int(f.Sections[names].Offset) + int(binary.LittleEndian.Uint32(b[headers+i*64:]))
			b = bytes.Clone(b)
			b[at+1] = 'b'
		}
	}
	return b
}

// pack puts the modules and their index into an initramfs.
func (m *modules) pack(c *archive) error {
	for _, name := range slices.Sorted(maps.Keys(m.host)) {
		b, err := readModule(m.host[name])
		if err != nil {
			return err
		}
		c.file(m.Modules[name].File, 0o644, slim(b))
	}
	return c.json(guest.IndexFile, m.Index)
}
