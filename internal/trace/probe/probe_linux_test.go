package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/trace/sockets"
)

// pod is a network namespace with loopback up.
func pod(t *testing.T) *netns.NS {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("needs root and network namespaces: %v", err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	err = ns.Do(func() error { return exec.Command("ip", "link", "set", "lo", "up").Run() })
	if err != nil {
		t.Fatalf("needs the ip command: %v", err)
	}
	return ns
}

func listen(t *testing.T, ns *netns.NS) net.Listener {
	t.Helper()
	var l net.Listener
	err := ns.Do(func() (err error) {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dst(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

func TestAProbeRunsInThePodsNamespaceNotInOurs(t *testing.T) {
	ns := pod(t)
	l := listen(t, ns)
	in := Do(t.Context(), "/proc", Request{Kind: Conn, NetNS: ns.Path(), Dst: dst(l.Addr())})
	if in.Result != Answered || !in.Local.IsValid() {
		t.Errorf("in the namespace: got %+v, want answered", in)
	}
	if out := Do(t.Context(), "/proc", Request{Kind: Conn, Dst: dst(l.Addr())}); out.Result != Refused {
		t.Errorf("outside of it: got %+v, want refused", out)
	}
}

func TestAPodIsFoundByTheUIDInItsCgroup(t *testing.T) {
	ns, proc := pod(t), t.TempDir()
	l := listen(t, ns)
	if err := os.MkdirAll(filepath.Join(proc, "41", "ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "41", "cgroup"), []byte("0::/kubepods/podabc-1/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(ns.Path(), filepath.Join(proc, "41", "ns", "net")); err != nil {
		t.Fatal(err)
	}
	if a := Do(t.Context(), proc, Request{Kind: Conn, PodUID: "abc-1", Dst: dst(l.Addr())}); a.Result != Answered {
		t.Errorf("got %+v, want answered", a)
	}
	a := Do(t.Context(), proc, Request{Kind: Conn, PodUID: "gone", Dst: dst(l.Addr())})
	if a.Result != Failed || !strings.Contains(a.Error, sockets.ErrNoProcess.Error()) {
		t.Errorf("a Pod without process: got %+v, want failed", a)
	}
}

func TestTheKindOfFailureIsNamed(t *testing.T) {
	ns := pod(t)
	if a := Do(t.Context(), "/proc", Request{Kind: Conn, NetNS: ns.Path(), Dst: netip.MustParseAddrPort("192.0.2.1:80")}); a.Result != NoRoute {
		t.Errorf("no route: got %+v", a)
	}
	l := listen(t, ns)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	req := &flow.Request{Scheme: "http", Host: "a.example", Path: "/"}
	if a := Do(t.Context(), "/proc", Request{Kind: HTTP, NetNS: ns.Path(), Dst: dst(l.Addr()), HTTP: req}); a.Result != Reset {
		t.Errorf("reset: got %+v", a)
	}
	silent := listen(t, ns)
	a := Do(t.Context(), "/proc", Request{Kind: HTTP, NetNS: ns.Path(), Dst: dst(silent.Addr()), HTTP: req, Timeout: 50 * time.Millisecond})
	if a.Result != Timeout {
		t.Errorf("silence: got %+v", a)
	}
	if a := Do(t.Context(), "/proc", Request{Kind: "smoke"}); a.Result != Failed {
		t.Errorf("an unknown kind: got %+v", a)
	}
}

func TestHTTPIsAskedWithHostAndTheStatusComesBack(t *testing.T) {
	ns := pod(t)
	l := listen(t, ns)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", r.Host)
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusPermanentRedirect)
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	a := Do(t.Context(), "/proc", Request{Kind: HTTP, NetNS: ns.Path(), Dst: dst(l.Addr()),
		HTTP: &flow.Request{Scheme: "http", Host: "shop.example", Path: "/x"}})
	if a.Result != Answered || a.Status != 308 || a.Server != "shop.example" {
		t.Errorf("got %+v, want the redirect itself", a)
	}
}

func TestACertificateOfAnotherHostIsReportedNotRefused(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	at := dst(srv.Listener.Addr())
	a := Do(t.Context(), "/proc", Request{Kind: HTTP, Dst: at, HTTP: &flow.Request{Scheme: "https", Host: "shop.test", Path: "/"}})
	if a.Status != 404 || a.TLS == "" {
		t.Errorf("got %+v, want 404 and a complaint about the certificate", a)
	}
	a = Do(t.Context(), "/proc", Request{Kind: HTTP, Dst: at, HTTP: &flow.Request{Scheme: "https", Host: "example.com", Path: "/"}})
	if a.TLS != "" {
		t.Errorf("the certificate's own host: %q", a.TLS)
	}
}

func TestDNSIsSearchedAsAResolverDoes(t *testing.T) {
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 16)
	srv := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
		asked <- q.Question[0].Name
		if q.Question[0].Name == "cart.svc.cluster.local." {
			rr, _ := dns.NewRR("cart.svc.cluster.local. 5 IN A 10.96.0.7")
			m = new(dns.Msg).SetReply(q)
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	t.Cleanup(func() { _ = srv.ShutdownContext(context.Background()) })
	q := &flow.Question{Name: "cart", Type: "A", Search: []string{"shop.svc.cluster.local", "svc.cluster.local"}, NDots: 5}
	a := Do(t.Context(), "/proc", Request{Kind: DNS, Dst: dst(pc.LocalAddr()), DNS: q})
	got := fmt.Sprint(a.Result, a.Rcode, a.Name, a.Records, <-asked, <-asked)
	want := fmt.Sprint(Answered, "NOERROR", "cart.svc.cluster.local.", []string{"A 10.96.0.7"}, "cart.shop.svc.cluster.local.", "cart.svc.cluster.local.")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheSearchListByDots(t *testing.T) {
	q := flow.Question{Name: "a.b", Search: []string{"x", "y."}, NDots: 2}
	if diff := cmp.Diff([]string{"a.b.x.", "a.b.y.", "a.b."}, Candidates(q)); diff != "" {
		t.Error(diff)
	}
	q.NDots = 1
	if diff := cmp.Diff([]string{"a.b.", "a.b.x.", "a.b.y."}, Candidates(q)); diff != "" {
		t.Error(diff)
	}
	q.Name = "a.b."
	if diff := cmp.Diff([]string{"a.b."}, Candidates(q)); diff != "" {
		t.Error(diff)
	}
}

func TestProbesAreSentForTheOtherEnd(t *testing.T) {
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), "/proc", there, there) }()
	ns := pod(t)
	l := listen(t, ns)
	c := NewClient(here)
	for range 2 {
		if a, err := c.Do(t.Context(), Request{Kind: Conn, NetNS: ns.Path(), Dst: dst(l.Addr())}); err != nil || a.Result != Answered {
			t.Errorf("got %+v %v", a, err)
		}
	}
	_ = c.Close()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := c.Do(t.Context(), Request{Kind: Conn}); err == nil {
		t.Error("want an error on a closed connection")
	}
}
