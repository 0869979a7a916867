package vm

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestTheMachineHasWhatOtherKernelsLack(t *testing.T) {
	Test(t, Machine{}, func(t *testing.T) {
		if _, err := netlink.GenlFamilyGet("IPVS"); err != nil {
			t.Errorf("IPVS: %v", err)
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
		if err != nil {
			t.Errorf("SCTP: %v", err)
		} else {
			unix.Close(fd)
		}
		d := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "d0"}}
		if err := netlink.LinkAdd(d); err != nil {
			t.Fatalf("dummy: %v", err)
		}
		if err := netlink.QdiscAdd(netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: d.Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}, netlink.NetemQdiscAttrs{Latency: 1000})); err != nil {
			t.Errorf("netem: %v", err)
		}
		if b, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err != nil || !strings.Contains(string(b), "memory") {
			t.Errorf("cgroup version 2: %q, %v", b, err)
		}
	})
}

func TestTheExitCodeAndTheFilesComeBack(t *testing.T) {
	needKernel(t)
	dir := t.TempDir()
	var out bytes.Buffer
	code, err := Machine{Args: []string{busybox(t), "sh", "-c", "echo hello; echo file >/out/x; exit 7"}, Out: &out, OutDir: dir}.Run(t.Context())
	if err != nil || code != 7 || strings.TrimSpace(out.String()) != "hello" {
		t.Fatalf("code %d, %v, output %q; want 7 and hello", code, err, out.String())
	}
	if b, err := os.ReadFile(dir + "/x"); err != nil || string(b) != "file\n" {
		t.Errorf("file of the machine: %q, %v", b, err)
	}
}

func TestAProgramThatDoesNotEndIsEnded(t *testing.T) {
	needKernel(t)
	code, err := Machine{Args: []string{busybox(t), "sh", "-c", "trap '' QUIT; while :; do :; done"}, Timeout: time.Second}.Run(t.Context())
	if err != nil || code != OutOfTime {
		t.Fatalf("code %d, %v; want %d", code, err, OutOfTime)
	}
}

func TestAKernelThatPanicsIsNoResult(t *testing.T) {
	needKernel(t)
	_, err := Machine{Args: []string{busybox(t), "sh", "-c", "echo c >/proc/sysrq-trigger"}}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ended before the program did") {
		t.Fatalf("got %v", err)
	}
}

func TestWithoutAKernelTheRemedyIsSaid(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(EnvKernel, "")
	_, err := Kernel()
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "hack/deps.sh tests") {
		t.Errorf("got %v", err)
	}
}

func needKernel(t *testing.T) {
	t.Helper()
	if _, err := Kernel(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// busybox is a program without libraries that can be a shell.
func busybox(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Fatal("no busybox: apt-get install busybox-static")
	return ""
}
