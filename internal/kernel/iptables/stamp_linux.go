package iptables

import (
	"context"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stamp implements Door. The variant nft has the generation of all nf_tables; the variant legacy has numbers and sizes of
// the tables' rules, which miss that one rule took the place of another of the same size.
func (e *Exec) Stamp(ctx context.Context) (Stamp, error) {
	if e.variant == Legacy {
		return e.sizes()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	gen, err := e.nft.Generation(ctx)
	if err != nil {
		return "", fmt.Errorf("iptables: %w", err)
	}
	return Stamp(fmt.Sprintf("nft %d", gen)), nil
}

// info is struct ipt_getinfo of linux/netfilter_ipv4/ip_tables.h.
type info struct {
	name       [32]byte
	hooks      uint32
	entry      [5]uint32
	underflow  [5]uint32
	numEntries uint32
	size       uint32
}

// getInfo is IPT_SO_GET_INFO and IP6T_SO_GET_INFO.
const getInfo = 64

func (e *Exec) sizes() (Stamp, error) {
	var s strings.Builder
	for _, f := range Families {
		for _, table := range []string{NAT, Filter} {
			if !e.Has(f) || !e.loaded(f, table) {
				continue
			}
			var i info
			if err := e.in(func() error { return i.ask(f, table) }); err != nil {
				return "", fmt.Errorf("iptables: size of %s table %s: %w", f, table, err)
			}
			fmt.Fprintf(&s, "%s %s %d %d ", f, table, i.numEntries, i.size)
		}
	}
	return Stamp(s.String()), nil
}

// ask asks the kernel about a table of the calling thread's namespace.
func (i *info) ask(f Family, table string) error {
	domain, level := unix.AF_INET, unix.SOL_IP
	if f == IPv6 {
		domain, level = unix.AF_INET6, unix.SOL_IPV6
	}
	fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	copy(i.name[:], table)
	size := uint32(unsafe.Sizeof(*i))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), getInfo, uintptr(unsafe.Pointer(i)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
