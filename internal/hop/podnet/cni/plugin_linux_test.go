package cni_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/hop/podnet/podnettest"
)

func node(t *testing.T, cidrs ...string) *podnettest.Runtime {
	t.Helper()
	n := podnettest.NewHost(t, "node-1")
	n.Forward()
	r := podnettest.NewRuntime(t, n)
	r.Configure(1450, cidrs...)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Fatalf("got %v, want an error with %q", err, w)
		}
	}
}

// veths returns the names of the Pods' devices on the node.
func veths(t *testing.T, r *podnettest.Runtime) []string {
	t.Helper()
	all, err := r.Node.Links.List()
	must(t, err)
	var out []string
	for _, l := range all {
		if strings.HasPrefix(l.Name, podnet.VethPrefix) {
			out = append(out, l.Name)
		}
	}
	return out
}

func reservations(t *testing.T, r *podnettest.Runtime) []ipam.Reservation {
	t.Helper()
	all, err := ipam.Open(r.StoreDir()).List()
	must(t, err)
	return all
}

func port(a netip.Addr) string { return netip.AddrPortFrom(a, 8080).String() }

func TestPodsOfANodeReachEachOtherTheNodeAndThemselvesFromTheFirstPacket(t *testing.T) {
	for _, cidrs := range [][]string{{"10.244.1.0/24"}, {"fd44:1::/64"}, {"10.244.1.0/24", "fd44:1::/64"}} {
		t.Run(strings.Join(cidrs, ","), func(t *testing.T) {
			r := node(t, cidrs...)
			a, addrsA := r.Pod(t, "a")
			b, addrsB := r.Pod(t, "b")
			a.Serve(":8080")
			b.Serve(":8080")
			r.Node.Serve(":8080")
			for i, cidr := range cidrs {
				gateway := netip.MustParsePrefix(cidr).Addr().Next()
				for _, c := range []struct {
					who  string
					from *podnettest.Host
					to   netip.Addr
					saw  netip.Addr
				}{
					{"Pod to Pod", a, addrsB[i], addrsA[i]},
					{"Pod back", b, addrsA[i], addrsB[i]},
					{"Pod to itself", a, addrsA[i], addrsA[i]},
					{"Pod to node", a, gateway, addrsA[i]},
					{"node to Pod", r.Node, addrsA[i], gateway},
				} {
					saw, err := c.from.Call(port(c.to), 100_000)
					if err != nil || saw != c.saw.String() {
						t.Errorf("%s, %s: server saw %q, %v", c.who, c.to, saw, err)
					}
				}
			}
		})
	}
}

func TestADatagramOfExactlyTheMTUPassesUnfragmented(t *testing.T) {
	r := node(t, "10.244.1.0/24", "fd44:1::/64")
	a, _ := r.Pod(t, "a")
	b, addrs := r.Pod(t, "b")
	b.Serve(":8080")
	for i, header := range []int{28, 48} {
		if _, err := a.Datagram(port(addrs[i]), 1450-header); err != nil {
			t.Errorf("%s: %v", addrs[i], err)
		}
		if _, err := a.Datagram(port(addrs[i]), 1450-header+1); err == nil {
			t.Errorf("%s: a larger one passed", addrs[i])
		}
	}
}

func TestTheResultNamesBothEndsAddressesGatewaysAndRoutes(t *testing.T) {
	r := node(t, "10.244.1.0/24", "fd44:1::/64")
	pod := podnettest.NewHost(t, "a")
	res, err := r.AddResult(pod)
	must(t, err)
	var got []string
	for _, i := range res.Interfaces {
		got = append(got, fmt.Sprintf("%s %s mtu %d sandbox %t", i.Name, i.Mac, i.Mtu, i.Sandbox == pod.NS.Path()))
	}
	for _, ip := range res.IPs {
		got = append(got, fmt.Sprintf("%s of %d gateway %s", ip.Address.String(), *ip.Interface, ip.Gateway))
	}
	for _, rt := range res.Routes {
		got = append(got, fmt.Sprintf("%s via %s", rt.Dst.String(), rt.GW))
	}
	veth := podnet.VethName("a", "eth0")
	want := []string{
		veth + " " + podnet.MAC("host", veth).String() + " mtu 1450 sandbox false",
		"eth0 " + podnet.MAC("pod", veth).String() + " mtu 1450 sandbox true",
		"10.244.1.2/32 of 1 gateway 10.244.1.1", "fd44:1::2/128 of 1 gateway fd44:1::1",
		"0.0.0.0/0 via 10.244.1.1", "::/0 via fd44:1::1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	l, _, err := r.Node.Links.Get(veth)
	if err != nil || l.Alias != "podway: shop/a eth0" {
		t.Errorf("alias %q, %v", l.Alias, err)
	}
	if v, err := r.Node.Sysctl.Get("net/ipv6/conf/" + veth + "/accept_ra"); err != nil || v != "0" {
		t.Errorf("the node believes a Pod's router advertisements: %q, %v", v, err)
	}
	all := reservations(t, r)
	if len(all) != 1 || all[0].Pod != "a" || all[0].Namespace != "shop" || all[0].UID != "uid-a" || all[0].Netns != pod.NS.Path() || all[0].Veth != veth {
		t.Errorf("reservations %+v", all)
	}
}

func TestWithoutTheNodesConfigurationAddAndStatusSayWhoIsMissing(t *testing.T) {
	r := node(t, "10.244.1.0/24")
	must(t, r.Status())
	must(t, os.Remove(r.ConfigPath()))
	pod := podnettest.NewHost(t, "a")
	_, err := r.Add(pod)
	wantError(t, err, "podway-node has not written it yet", r.ConfigPath())
	wantError(t, r.Status(), "podway-node has not written it yet")
	must(t, r.Del(pod))
	if len(veths(t, r)) != 0 || len(reservations(t, r)) != 0 {
		t.Errorf("left: %v %v", veths(t, r), reservations(t, r))
	}
}

func TestAnAddWaitsForTheNodesConfiguration(t *testing.T) {
	r := node(t, "10.244.1.0/24")
	config, err := os.ReadFile(r.ConfigPath())
	must(t, err)
	must(t, os.Remove(r.ConfigPath()))
	wrote := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { wrote <- os.WriteFile(r.ConfigPath(), config, 0o644) })
	_, err = r.Add(podnettest.NewHost(t, "a"))
	must(t, err)
	must(t, <-wrote)
}

func TestASecondAddOfAnInterfaceIsAnErrorAndLeavesTheFirst(t *testing.T) {
	r := node(t, "10.244.1.0/24")
	pod, addrs := r.Pod(t, "a")
	_, err := r.Add(pod)
	wantError(t, err, "has an interface eth0 already")
	must(t, r.Check(pod))
	if all := reservations(t, r); len(all) != 1 || all[0].Addrs[0] != addrs[0] {
		t.Errorf("reservations %v, address %v", all, addrs)
	}
}

func TestDelIsIdempotentAlsoWithoutNamespaceConfigurationAndStore(t *testing.T) {
	r := node(t, "10.244.1.0/24")
	pod, _ := r.Pod(t, "a")
	must(t, os.Remove(r.ConfigPath()))
	gone := &podnettest.Host{Name: "a"}
	for range 2 {
		must(t, r.Del(gone))
	}
	if len(veths(t, r)) != 0 || len(reservations(t, r)) != 0 {
		t.Fatalf("left: %v %v", veths(t, r), reservations(t, r))
	}
	if _, ok, _ := pod.Links.Get("eth0"); ok {
		t.Error("the Pod still has eth0")
	}
	must(t, os.RemoveAll(r.StoreDir()))
	must(t, r.Del(gone))
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	breaks := map[string]struct {
		do   func(r *podnettest.Runtime, pod *podnettest.Host) error
		want string
	}{
		"the node's route": {func(r *podnettest.Runtime, _ *podnettest.Host) error {
			all, _ := r.Node.Routes.Routes()
			return r.Node.Routes.Delete(all[0])
		}, "no route to 10.244.1.2/32"},
		"the node's device": {func(r *podnettest.Runtime, _ *podnettest.Host) error {
			return r.Node.Links.SetUp(podnet.VethName("a", "eth0"), false)
		}, "is down"},
		"the Pod's device": {func(_ *podnettest.Runtime, pod *podnettest.Host) error { return pod.Links.Delete("eth0") }, "device eth0 is missing"},
		"the reservation":  {func(r *podnettest.Runtime, _ *podnettest.Host) error { return os.RemoveAll(r.StoreDir()) }, "no address is reserved"},
	}
	for name, b := range breaks {
		t.Run(name, func(t *testing.T) {
			r := node(t, "10.244.1.0/24")
			pod, _ := r.Pod(t, "a")
			must(t, r.Check(pod))
			must(t, b.do(r, pod))
			wantError(t, r.Check(pod), b.want)
		})
	}
}

func TestGCTakesWhatTheRuntimeDoesNotKnow(t *testing.T) {
	r := node(t, "10.244.1.0/24")
	a, _ := r.Pod(t, "a")
	r.Pod(t, "b")
	must(t, r.GC(a))
	if v := veths(t, r); !slices.Equal(v, []string{podnet.VethName("a", "eth0")}) {
		t.Errorf("devices %v", v)
	}
	if all := reservations(t, r); len(all) != 1 || all[0].Container != "a" {
		t.Errorf("reservations %v", all)
	}
	must(t, r.Check(a))
}

func TestAFullRangeIsAClearErrorAndDeadReservationsGiveWay(t *testing.T) {
	r := node(t, "10.244.1.0/30") // one Pod
	a, _ := r.Pod(t, "a")
	late := podnettest.NewHost(t, "late")
	_, err := r.Add(late)
	wantError(t, err, "PW-5005", "node-1", "10.244.1.0/30")
	if v := veths(t, r); len(v) != 1 {
		t.Errorf("devices %v", v)
	}
	must(t, r.Node.Links.Delete(podnet.VethName("a", "eth0")))
	must(t, a.NS.Close()) // as after a restart of the machine: neither device nor namespace
	if _, err := r.Add(late); err != nil {
		t.Errorf("a dead reservation kept its address: %v", err)
	}
}

func TestTwoHundredAddsAtOnceGetDistinctAddresses(t *testing.T) {
	const pods, workers = 200, 16
	r := node(t, "10.244.1.0/24", "fd44:1::/64")
	jobs, seen := make(chan int, pods), map[netip.Addr]int{}
	for i := range pods {
		jobs <- i
	}
	close(jobs)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range jobs {
				pod := podnettest.NewHost(t, fmt.Sprintf("pod-%d", i))
				addrs, err := r.Add(pod)
				mu.Lock()
				if err != nil || len(addrs) != 2 {
					t.Errorf("pod-%d: %v, %v", i, addrs, err)
				}
				for _, a := range addrs {
					seen[a]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 2*pods || len(veths(t, r)) != pods {
		t.Errorf("%d addresses, %d devices", len(seen), len(veths(t, r)))
	}
}
