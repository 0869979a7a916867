package sockdiag

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

func cookie(t *testing.T, c net.Conn) (out uint64) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		out, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheNamedSocketsEndAndOthersStay(t *testing.T) {
	ns, err := netns.New()
	if err != nil {
		t.Skip(err) // not root
	}
	defer ns.Close()
	var socks []net.Conn
	err = ns.Do(func() error {
		if err := upLoopback(); err != nil {
			return err
		}
		for _, to := range []string{"127.0.0.1:9", "[::1]:9", "127.0.0.1:9"} {
			c, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			socks = append(socks, c)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range socks {
		defer c.Close()
	}
	n, err := DestroyUDP(ns, []uint64{cookie(t, socks[0]), cookie(t, socks[1]), 1 << 60})
	if err != nil || n != 2 {
		t.Fatalf("ended %d, %v; want 2", n, err)
	}
	for i, c := range socks[:2] {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNABORTED) {
			t.Errorf("socket %d: %v, want ECONNABORTED", i, err)
		}
	}
	if _, err := socks[2].Write([]byte("x")); err != nil {
		t.Errorf("another socket: %v", err)
	}
	if n, err := DestroyUDP(ns, []uint64{cookie(t, socks[2]) + 1}); n != 0 || err != nil {
		t.Errorf("an unknown cookie: %d, %v", n, err)
	}
}

// upLoopback brings the loopback device of the calling thread's namespace up.
func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}
