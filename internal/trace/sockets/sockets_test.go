package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

const uid = "3f2a9c1e-5d0b-4a53-9d7e-0123456789ab"

// procWith makes a proc directory whose process PID has the real one's sockets and files and the given cgroup.
func procWith(t *testing.T, cgroup string) string {
	t.Helper()
	proc := t.TempDir()
	dir := filepath.Join(proc, strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"net", "fd", "comm"} {
		if err := os.Symlink(filepath.Join("/proc", strconv.Itoa(os.Getpid()), name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte(cgroup), 0o644); err != nil {
		t.Fatal(err)
	}
	return proc
}

func TestAPodIsFoundInEverySpellingOfItsCgroup(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup string
		found  bool
	}{
		"v2 systemd":    {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f2a9c1e_5d0b_4a53_9d7e_0123456789ab.slice/cri-containerd-11.scope\n", true},
		"v2 cgroupfs":   {"0::/kubepods/burstable/pod3f2a9c1e-5d0b-4a53-9d7e-0123456789ab/11\n", true},
		"v2 relative":   {"0::/../../pod3f2a9c1e-5d0b-4a53-9d7e-0123456789ab\n", true},
		"v1":            {"12:cpuset:/\n4:memory:/kubepods/pod3f2a9c1e-5d0b-4a53-9d7e-0123456789ab/11\n", true},
		"another Pod":   {"0::/kubepods/burstable/pod00000000-5d0b-4a53-9d7e-0123456789ab/11\n", false},
		"a longer name": {"0::/kubepods/pod3f2a9c1e-5d0b-4a53-9d7e-0123456789abc/11\n", false},
		"no Pod":        {"0::/system.slice/sshd.service\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			pids, err := PIDs(procWith(t, c.cgroup), uid)
			if err != nil || (len(pids) == 1) != c.found {
				t.Errorf("got %v %v, want found = %t", pids, err, c.found)
			}
		})
	}
}

func TestRealSocketsAreSeenWithTheirProcess(t *testing.T) {
	all, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	loop, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	r, err := Read(procWith(t, "0::/kubepods/pod"+uid+"/1\n"), uid)
	if err != nil {
		t.Fatal(err)
	}
	open := netip.MustParseAddrPort(fmt.Sprintf("10.244.0.9:%d", all.Addr().(*net.TCPAddr).Port))
	if how, on := r.On("tcp", open); how != Reached || on[0].PID != os.Getpid() || on[0].Command == "" {
		t.Errorf("the listener on all addresses: got %v %+v", how, on)
	}
	closed := netip.MustParseAddrPort(fmt.Sprintf("10.244.0.9:%d", loop.LocalAddr().(*net.UDPAddr).Port))
	if how, _ := r.On("udp", closed); how != Loopback {
		t.Errorf("the loopback socket: got %v, want Loopback", how)
	}
	if how, _ := r.On("udp", open); how != Nowhere {
		t.Errorf("a TCP listener is none for UDP: got %v", how)
	}
}

func TestAPodWithoutProcessIsAnErrorOfItsOwn(t *testing.T) {
	if _, err := Read(procWith(t, "0::/\n"), uid); !errors.Is(err, ErrNoProcess) {
		t.Errorf("got %v, want ErrNoProcess", err)
	}
	if _, err := Read(procWith(t, "0::/\n"), ""); !errors.Is(err, ErrNoProcess) {
		t.Errorf("an empty UID matches nothing: got %v", err)
	}
}

func TestManyPodsAreReadAtOnceAndTheNodeItself(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := ReadNode()
	if how, _ := r.On("tcp", netip.MustParseAddrPort(l.Addr().String())); err != nil || how != Loopback {
		t.Errorf("own listener on %s: %v %v", l.Addr(), how, err)
	}
	proc := procWith(t, "0::/kubepods.slice/pod"+uid+"/x\n")
	all, err := ReadAll(proc, []string{uid, "another", ""})
	one, oneErr := Read(proc, uid)
	if err != nil || oneErr != nil || len(all) != 1 || len(all[uid].Listeners) != len(one.Listeners) {
		t.Errorf("got %+v %v; alone %+v %v", all, err, one, oneErr)
	}
}

func TestAddressesAreReadInTheMachinesOrder(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"00000000000000000000000000000000:0050": "[::]:80",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
	} {
		if got, err := parseAddr(in); err != nil || got.String() != want {
			t.Errorf("%s: got %s %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "zz:1", "0100007F", "01:50", "0100007F:zz"} {
		if got, err := parseAddr(in); err == nil {
			t.Errorf("%q: got %s, want an error", in, got)
		}
	}
}

func TestHowAPortIsBound(t *testing.T) {
	for _, c := range []struct {
		on, dst string
		want    Bound
	}{
		{"0.0.0.0:80", "10.0.0.1:80", Reached}, {"[::]:80", "10.0.0.1:80", Reached}, {"[::]:80", "[fd00::1]:80", Reached},
		{"10.0.0.1:80", "10.0.0.1:80", Reached}, {"0.0.0.0:80", "[fd00::1]:80", Family}, {"127.0.0.1:80", "10.0.0.1:80", Loopback},
		{"10.0.0.2:80", "10.0.0.1:80", Nowhere}, {"0.0.0.0:81", "10.0.0.1:80", Nowhere},
	} {
		r := Report{Listeners: []Listener{{Proto: "tcp", Addr: netip.MustParseAddrPort(c.on)}}}
		if got, _ := r.On("tcp", netip.MustParseAddrPort(c.dst)); got != c.want {
			t.Errorf("%s for %s: got %v, want %v", c.on, c.dst, got, c.want)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add("  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 12345 1\n")
	f.Fuzz(func(t *testing.T, data string) {
		got, err := parseTable("tcp", data)
		for _, l := range got {
			if err == nil && !l.Addr.IsValid() {
				t.Errorf("an invalid address without an error from %q", data)
			}
		}
	})
}
