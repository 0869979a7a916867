package cni_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/podnet/podnettest"
)

// outside is a host beside the node, which is 192.0.2.1 and 2001:db8::1 to it.
func outside(t *testing.T, r *podnettest.Runtime) *podnettest.Host {
	t.Helper()
	out := podnettest.NewHost(t, "outside")
	r.Node.Wire("eth0", []string{"192.0.2.1/24", "2001:db8::1/64"}, out, "eth0", []string{"192.0.2.9/24", "2001:db8::9/64"})
	return out
}

func TestAHostPortLeadsToThePodFromEverywhereAndEndsWithIt(t *testing.T) {
	r := node(t, "10.244.1.0/24", "fd44:1::/64")
	out := outside(t, r)
	r.Ports = []podnettest.HostPort{{HostPort: 30080, ContainerPort: 8080, Protocol: "TCP"}, {HostPort: 30081, ContainerPort: 8080, HostIP: "192.0.2.7"}}
	pod, addrs := r.Pod(t, "a")
	pod.Serve(":8080")
	ports := r.Ports
	r.Ports = nil
	other, otherAddrs := r.Pod(t, "b")
	for _, c := range []struct {
		who  string
		from *podnettest.Host
		to   string
		saw  string
	}{
		{"outside", out, "192.0.2.1:30080", "192.0.2.9"}, {"outside", out, "[2001:db8::1]:30080", "2001:db8::9"},
		{"another Pod", other, "192.0.2.1:30080", otherAddrs[0].String()}, {"another Pod", other, "[2001:db8::1]:30080", otherAddrs[1].String()},
		{"the Pod itself", pod, "192.0.2.1:30080", "10.244.1.1"}, {"the Pod itself", pod, "[2001:db8::1]:30080", "fd44:1::1"},
		{"the node", r.Node, "192.0.2.1:30080", "192.0.2.1"},
	} {
		if saw, err := c.from.Call(c.to, 100_000); err != nil || saw != c.saw {
			t.Errorf("%s to %s: the Pod saw %q, want %s: %v", c.who, c.to, saw, c.saw, err)
		}
	}
	if _, err := out.Call("192.0.2.1:30081", 1); err == nil {
		t.Error("a port that is bound to another address leads to the Pod")
	}
	if all := reservations(t, r); len(all[0].Ports) != 2 || all[0].Addrs[0] != addrs[0] {
		t.Errorf("reservations %+v", all)
	}
	r.Ports = ports
	must(t, r.Del(pod))
	if _, err := out.Call("192.0.2.1:30080", 1); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("after DEL: %v", err)
	}
}

// One number can be had three times: at an address, at loopback, and by another protocol. Loopback leads to its Pod for
// connections of the node that have an address of the node as their source, and to nobody from elsewhere.
func TestAHostPortAtLoopbackIsReachedFromTheNodesAddress(t *testing.T) {
	r := node(t, "10.244.1.0/24", "fd44:1::/64")
	out := outside(t, r)
	r.Ports = []podnettest.HostPort{{HostPort: 54323, ContainerPort: 8080, HostIP: "127.0.0.1"}, {HostPort: 54323, ContainerPort: 8080, HostIP: "::1"}}
	inside, _ := r.Pod(t, "a")
	r.Ports = []podnettest.HostPort{{HostPort: 54323, ContainerPort: 8080, HostIP: "192.0.2.1"}}
	open, _ := r.Pod(t, "b")
	inside.Serve(":8080")
	for _, c := range []struct{ source, to string }{{"192.0.2.1", "127.0.0.1:54323"}, {"2001:db8::1", "[::1]:54323"}} {
		if saw, err := r.Node.CallFrom(c.source, c.to, 100_000); err != nil || saw != c.source {
			t.Errorf("%s to %s: the Pod saw %q: %v", c.source, c.to, saw, err)
		}
	}
	open.Serve(":8080")
	for _, from := range []*podnettest.Host{r.Node, out} {
		if _, err := from.Call("192.0.2.1:54323", 1); err != nil {
			t.Errorf("the node's address: %v", err)
		}
	}
	if _, err := r.Node.Call("127.0.0.1:54323", 1); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("from loopback to loopback: %v", err)
	}
	if _, err := out.Call("[2001:db8::1]:54323", 1); err == nil {
		t.Error("a port bound to loopback is reached from outside")
	}
}

// A sender of datagrams that never pauses must reach the new Pod: the kernel remembers where the connection went.
func TestAHostPortsUDPSenderFollowsToTheNewPod(t *testing.T) {
	r := node(t, "10.244.1.0/24")
	out := outside(t, r)
	send := out.Sender("192.0.2.1:30053")
	if who, err := send(); err == nil {
		t.Fatalf("answered by %s before there is a Pod", who)
	}
	var last netip.Addr
	for _, name := range []string{"a", "b"} {
		r.Ports = []podnettest.HostPort{{HostPort: 30053, ContainerPort: 8080, Protocol: "udp"}}
		pod, addrs := r.Pod(t, name)
		pod.ServeName(":8080", name)
		var who string
		var err error
		for end := time.Now().Add(time.Second); time.Now().Before(end) && who != name; {
			who, err = send()
		}
		if who != name {
			t.Fatalf("Pod %s (%s, before it %s): answered by %q, %v", name, addrs, last, who, err)
		}
		last = addrs[0]
		must(t, r.Del(pod))
	}
}
