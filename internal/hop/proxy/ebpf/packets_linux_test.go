package ebpf

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// want is one connection and what must become of it.
type want struct {
	name   string
	from   *nettest.Host
	dst    netip.AddrPort
	result nettest.Result
	who    []string   // any of these answers
	saw    netip.Addr // the source address that the endpoint sees, when it matters
}

func (l *lab) check(ws ...want) {
	l.t.Helper()
	for _, w := range ws {
		for _, proto := range []string{"tcp", "udp"} {
			r := w.from.Connect(l.t.Context(), nettest.Dial{Proto: proto, Dst: w.dst, Timeout: 5 * time.Second})
			if r.Result != w.result || len(w.who) > 0 && !slices.Contains(w.who, r.Who) || w.saw.IsValid() && r.Saw.Addr() != w.saw {
				l.t.Errorf("%s, %s: got %s by %q who saw %s (%v); want %s by %v who sees %s", w.name, proto, r.Result, r.Who, r.Saw, r.Err, w.result, w.who, w.saw)
			}
		}
	}
}

func TestSocketsReachEndpointsWithoutAnyRule(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "b1"), webService())...)
	l.withoutRules()
	eps := []string{"a1", "b1"}
	for i, vip := range vips {
		own := netip.MustParseAddr(podAddrs["a3"][i])
		at := netip.AddrPortFrom(l.a.Addrs[i], nodePort)
		l.check(
			want{"Pod to ClusterIP", l.pods["a3"], vip, nettest.Reached, eps, own},
			want{"Pod to NodePort", l.pods["a3"], at, nettest.Reached, eps, own},
			want{"node to ClusterIP", l.a, vip, nettest.Reached, eps, netip.Addr{}},
			want{"node to its own NodePort", l.a, at, nettest.Reached, eps, netip.Addr{}},
		)
	}
	r := l.pods["b1"].Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: vip4, Timeout: 200 * time.Millisecond})
	if r.Result == nettest.Reached {
		t.Error("a Pod of another node was served by this node's programs")
	}
	l.apply(slices46("a1")...)
	l.withoutRules()
	for i, vip := range vips {
		l.check(want{"a Pod through its own Service", l.pods["a1"], vip, nettest.Reached, []string{"a1"}, netip.MustParseAddr(podAddrs["a1"][i])})
	}
}

// dial opens a socket in a host.
func (l *lab) dial(h *nettest.Host, f func() (int, error)) int {
	l.t.Helper()
	fd := -1
	l.ok(l.w.Settle(l.t.Context()))
	l.ok(h.Do(func() (err error) {
		fd, err = f()
		return err
	}))
	l.t.Cleanup(func() { unix.Close(fd) })
	l.ok(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3}))
	return fd
}

func sockaddr(a netip.AddrPort, family int) unix.Sockaddr {
	if family == unix.AF_INET {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// socketCases are the ways in which a program can ask for an address.
var socketCases = []struct {
	name   string
	family int
	dst    netip.AddrPort
}{
	{"IPv4", unix.AF_INET, vip4},
	{"IPv6", unix.AF_INET6, vip6},
	{"IPv4 by an IPv6 socket", unix.AF_INET6, netip.AddrPortFrom(netip.AddrFrom16(vip4.Addr().As16()), vip4.Port())},
}

func TestASocketSeesTheServiceThatItAskedFor(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "b1"), webService())...)
	l.withoutRules()
	for _, c := range socketCases {
		for typ, name := range map[int]string{unix.SOCK_STREAM: "tcp", unix.SOCK_DGRAM: "udp"} {
			fd := l.dial(l.pods["a3"], func() (int, error) {
				fd, err := unix.Socket(c.family, typ|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return fd, err
				}
				return fd, unix.Connect(fd, sockaddr(c.dst, c.family))
			})
			if sa, err := unix.Getpeername(fd); err != nil || addrPort(sa) != c.dst {
				t.Errorf("%s %s: the peer is %v, %v; want %s", c.name, name, addrPort(sa), err, c.dst)
			}
			buf := make([]byte, 100)
			_, err := unix.Write(fd, []byte("who\n"))
			l.ok(err)
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if who := string(buf[:max(0, n)]); err != nil || !strings.HasPrefix(who, "a1 ") && !strings.HasPrefix(who, "b1 ") {
				t.Errorf("%s %s: answer %q, %v", c.name, name, who, err)
			}
			if typ == unix.SOCK_DGRAM && addrPort(from) != c.dst {
				t.Errorf("%s %s: the answer came from %s, want %s", c.name, name, addrPort(from), c.dst)
			}
		}
	}
}

// ask sends a datagram without connection and returns who answered, and from where.
func ask(t *testing.T, fd int, to netip.AddrPort, family int) (string, netip.AddrPort) {
	t.Helper()
	if err := unix.Sendto(fd, []byte("who\n"), 0, sockaddr(to, family)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, from, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		t.Fatal(err)
	}
	who, _, _ := strings.Cut(string(buf[:n]), " ")
	return who, addrPort(from)
}

func TestDatagramsOfOneSocketKeepToOneEndpointWhileItServes(t *testing.T) {
	l := newLab(t)
	all := append(slices46("a1", "a2", "b1"), webService())
	l.apply(all...)
	l.withoutRules()
	for _, c := range socketCases {
		fd := l.dial(l.pods["a3"], func() (int, error) { return unix.Socket(c.family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) })
		first, _ := ask(t, fd, c.dst, c.family)
		for range 10 {
			if who, from := ask(t, fd, c.dst, c.family); who != first || from != c.dst {
				t.Fatalf("%s: %s answers from %s after %s; want the same from %s", c.name, who, from, first, c.dst)
			}
		}
		rest := slices.DeleteFunc([]string{"a1", "a2", "b1"}, func(s string) bool { return s == first })
		l.apply(slices46(rest...)...)
		if who, from := ask(t, fd, c.dst, c.family); who == first || from != c.dst {
			t.Errorf("%s: %s answers from %s; it is no endpoint any more", c.name, who, from)
		}
		// Asked for itself, an endpoint answers as itself.
		i := 0
		if c.dst.Addr().Unmap().Is6() {
			i = 1
		}
		for p, addrs := range podAddrs {
			direct := netip.AddrPortFrom(netip.MustParseAddr(addrs[i]), 8080)
			if c.family == unix.AF_INET6 {
				direct = netip.AddrPortFrom(netip.AddrFrom16(direct.Addr().As16()), 8080)
			}
			if who, from := ask(t, fd, direct, c.family); p[0] == 'a' && (who != p || from != direct) {
				t.Errorf("%s: %s answers from %s, want %s from %s", c.name, who, from, p, direct)
			}
		}
		l.apply(all...)
	}
}

func TestConnectedUDPSocketsEndWithTheirEndpointAndOnlyThey(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1"), webService())...)
	open := func(from *nettest.Host, dst netip.AddrPort) net.Conn {
		var c net.Conn
		l.ok(from.Do(func() (err error) {
			c, err = net.Dial("udp", dst.String())
			return err
		}))
		t.Cleanup(func() { c.Close() })
		l.ok(c.SetDeadline(time.Now().Add(5 * time.Second)))
		return c
	}
	gone := map[string]net.Conn{}
	for i, vip := range vips {
		gone["Pod to "+vip.String()] = open(l.pods["a3"], vip)
		gone["node to "+vip.String()] = open(l.a, vip)
		gone["Pod to node port "+l.a.Addrs[i].String()] = open(l.pods["a2"], netip.AddrPortFrom(l.a.Addrs[i], nodePort))
	}
	direct := open(l.pods["a3"], netip.AddrPortFrom(netip.MustParseAddr(podAddrs["a1"][0]), 8080))
	l.apply(slices46("a1", "a2")...)
	say := func(c net.Conn) error {
		if _, err := c.Write([]byte("who\n")); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 100))
		return err
	}
	for name, c := range gone {
		if err := say(c); err != nil {
			t.Errorf("%s: a new endpoint broke it: %v", name, err)
		}
	}
	l.restart()
	l.apply(slices46("a2")...) // the endpoint goes while no agent runs
	for name, c := range gone {
		if err := say(c); !errors.Is(err, syscall.ECONNABORTED) && !errors.Is(err, syscall.EDESTADDRREQ) && !errors.Is(err, syscall.ENOTCONN) {
			t.Errorf("%s: after its endpoint went: %v, want an error at once", name, err)
		}
	}
	if err := say(direct); err != nil {
		t.Errorf("a connection to the Pod itself: %v", err)
	}
	kept := open(l.pods["a3"], vip4)
	l.apply(slices46("a2", "b1")...)
	if err := say(kept); err != nil {
		t.Errorf("a connection to an endpoint that stays: %v", err)
	}
}

func TestTCPConnectionsOutliveTheirServiceAndTheAgent(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1"), webService())...)
	var c net.Conn
	l.ok(l.w.Settle(t.Context()))
	l.ok(l.pods["a3"].Do(func() (err error) {
		c, err = net.Dial("tcp", vip4.String())
		return err
	}))
	defer c.Close()
	l.ok(c.SetDeadline(time.Now().Add(5 * time.Second)))
	l.restart()
	l.apply(slices46()...)
	l.ok(l.proxy.Remove(t.Context()))
	if _, err := c.Write([]byte("who\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 100)); err != nil || n == 0 {
		t.Errorf("the connection broke: %v", err)
	}
}

func TestWhatSocketsCannotDecideGoesByThePacketsRules(t *testing.T) {
	l := newLab(t)
	l.apply(webService())
	for i, vip := range vips {
		l.check(
			want{"no endpoint, from a Pod", l.pods["a3"], vip, nettest.Refused, nil, netip.Addr{}},
			want{"no endpoint, NodePort", l.pods["a3"], netip.AddrPortFrom(l.a.Addrs[i], nodePort), nettest.Refused, nil, netip.Addr{}},
		)
	}
	l.apply(append(slices46("a1", "b1"), webService(func(s *model.Service) {
		s.Type, s.LoadBalancerIPs = model.LoadBalancer, []model.LoadBalancerIP{{Addr: netip.MustParseAddr("198.51.100.7")}}
		s.SourceRanges = []netip.Prefix{netip.MustParsePrefix(podAddrs["a3"][0] + "/32")}
	}))...)
	guarded := netip.MustParseAddrPort("198.51.100.7:80")
	l.check(want{"an allowed source", l.pods["a3"], guarded, nettest.Reached, []string{"a1", "b1"}, netip.Addr{}})
	r := l.pods["a2"].Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: guarded, Timeout: 200 * time.Millisecond})
	if r.Result != nettest.Dropped {
		t.Errorf("another source: %s, want dropped", r.Result)
	}
	mark, err := l.w.Outside().Via(l.a.Addrs[0])
	l.ok(err)
	for _, dst := range []netip.AddrPort{netip.AddrPortFrom(l.a.Addrs[0], nodePort), vip4} {
		r := l.w.Outside().Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: dst, Src: client4, Mark: mark, Timeout: 5 * time.Second})
		if r.Result != nettest.Reached {
			t.Errorf("outside to %s: %s (%v)", dst, r.Result, r.Err)
		}
	}
}
