package echo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// start serves on loopback until the test ends.
func start(t *testing.T, change ...func(*Config)) *Server {
	t.Helper()
	c := Config{HTTP: "127.0.0.1:0", TLS: "127.0.0.1:0", TCP: "127.0.0.1:0", UDP: "127.0.0.1:0", Grace: time.Second,
		Who: Identity{Pod: "echo-1", Namespace: "demo", Node: "node-1"}}
	for _, f := range change {
		f(&c)
	}
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.closeAll)
	return s
}

// cli runs a command line and returns what it printed and its exit code.
func cli(args ...string) (string, int) {
	var out, errOut strings.Builder
	code := Main(args, &out, &errOut)
	return out.String() + errOut.String(), code
}

// must runs a command line that succeeds and prints all the words.
func must(t *testing.T, words []string, args ...string) string {
	t.Helper()
	out, code := cli(args...)
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("echo %v: no %q in %q", args, w, out)
		}
	}
	if code != 0 {
		t.Errorf("echo %v: exit %d: %s", args, code, out)
	}
	return out
}

func TestPlainTextSaysWhoAnswersAndWhatItSaw(t *testing.T) {
	s := start(t)
	must(t, []string{"pod        echo-1", "namespace  demo", "node       node-1", "client     127.0.0.1:", "host       shop.example", "request    GET /a/b c=d",
		"protocol   HTTP/1.1", "tls        no", "header     X-Test: yes"},
		"get", "-H", "Host: shop.example", "http://"+s.Addr("http").String()+"/a/b?c=d", "-H", "X-Test: yes")
}

func TestJSONSaysTheSame(t *testing.T) {
	s := start(t)
	for _, args := range [][]string{{"-H", "Accept: application/json", "/x"}, {"/x?format=json"}} {
		args[len(args)-1] = "http://" + s.Addr("http").String() + args[len(args)-1]
		var r Reply
		if err := json.Unmarshal([]byte(must(t, nil, append([]string{"get", "-H", "X-Forwarded-For: 192.0.2.9", "-d", "hello"}, args...)...)), &r); err != nil {
			t.Fatal(err)
		}
		if r.Pod != "echo-1" || r.Node != "node-1" || r.Path != "/x" || r.Method != "POST" || r.Proto != "HTTP/1.1" || r.TLS ||
			r.ForwardedFor != "192.0.2.9" || r.BodyBytes != 5 || r.Body != "hello" || !strings.HasPrefix(r.Client, "127.0.0.1:") {
			t.Errorf("got %+v", r)
		}
	}
}

func TestEveryHTTPVersionOnTheirPorts(t *testing.T) {
	s := start(t)
	port := func(what string) string { _, p, _ := net.SplitHostPort(s.Addr(what).String()); return p }
	must(t, []string{"protocol   HTTP/2.0", "tls        no"}, "get", "--http2", "http://"+s.Addr("http").String())
	must(t, []string{"protocol   HTTP/2.0", "tls        yes", "host       shop.example:"}, "get", "-k", "--resolve", "shop.example=127.0.0.1", "https://shop.example:"+port("tls")+"/")
	if out, code := cli("get", "https://"+s.Addr("tls").String()); code != 1 || !strings.Contains(out, "certificate") {
		t.Errorf("a certificate nobody knows: exit %d, %s", code, out)
	}
	out := must(t, []string{"HTTP/1.1 200 OK", "Echo-Pod: echo-1"}, "get", "-i", s.Addr("http").String()+"/healthz")
	if !strings.HasSuffix(out, "ok\n") {
		t.Errorf("got %q", out)
	}
}

func TestGetFailsOnErrors(t *testing.T) {
	s := start(t)
	base := "http://" + s.Addr("http").String()
	if out, code := cli("get", base+"/status?code=404"); code != 1 || !strings.Contains(out, "404 by pod echo-1") {
		t.Errorf("404: exit %d, %s", code, out)
	}
	if out, code := cli("get", "-n", "3", "--interval", "1ms", base+"/status?code=503"); code != 1 || !strings.Contains(out, "3 of 3 requests failed") {
		t.Errorf("three times 503: exit %d, %s", code, out)
	}
	if out, code := cli("get", "http://127.0.0.1:1/"); code != 1 || !strings.Contains(out, "refused") {
		t.Errorf("a closed port: exit %d, %s", code, out)
	}
	must(t, []string{"pod        echo-1"}, "get", "-n", "2", "--new", base)
	for _, args := range [][]string{{"get"}, {"get", "a", "b"}, {"get", "--nonsense", base}, {"get", "-H", "nocolon", base}, {"get", "--resolve", "x", base}, {"nonsense"},
		{"ready", "maybe"}, {"load", "--rate", "0", base}, {"dig", "a.example", "b.example"}, {"serve", "x"}} {
		if out, code := cli(args...); code != 3 {
			t.Errorf("echo %v: exit %d, want 3: %s", args, code, out)
		}
	}
	must(t, []string{"echo load", "echo dig"}, "help")
}

func TestSleepBytesAndStatus(t *testing.T) {
	s := start(t)
	base := "http://" + s.Addr("http").String()
	began := time.Now()
	must(t, []string{"pod        echo-1"}, "get", base+"/sleep?ms=50")
	if time.Since(began) < 50*time.Millisecond {
		t.Error("it did not sleep")
	}
	for _, n := range []int{0, 1, 70_000} {
		if out := must(t, nil, "get", fmt.Sprintf("%s/bytes?n=%d", base, n)); len(out) != n {
			t.Errorf("%d bytes, want %d", len(out), n)
		}
	}
	must(t, nil, "get", base+"/status?code=204")
	for _, bad := range []string{"/sleep", "/sleep?ms=-1", "/bytes?n=x", "/status?code=99", "/status?code=600"} {
		if out, code := cli("get", base+bad); code != 1 || !strings.Contains(out, "400") {
			t.Errorf("%s: exit %d, %s", bad, code, out)
		}
	}
}

func TestReadinessIsSwitched(t *testing.T) {
	s := start(t)
	base := "http://" + s.Addr("http").String()
	_, port, _ := net.SplitHostPort(s.Addr("http").String())
	must(t, []string{"ready"}, "get", base+"/readyz")
	must(t, []string{"ready false"}, "ready", "off", "--http", port)
	if out, code := cli("get", base+"/readyz"); code != 1 || !strings.Contains(out, "503") {
		t.Errorf("exit %d, %s", code, out)
	}
	must(t, []string{"ok"}, "get", base+"/healthz")
	must(t, []string{"ready true"}, "get", "-X", "POST", base+"/readyz/on")
	must(t, []string{"ready"}, "get", base+"/readyz")
}

func TestTCPEcho(t *testing.T) {
	s := start(t)
	addr := s.Addr("tcp").String()
	must(t, []string{"pod echo-1 namespace demo node node-1 client 127.0.0.1:", "\nhello\n"}, "tcp", addr, "hello")
	if out := must(t, []string{"pod echo-1"}, "tcp", addr); strings.Count(out, "\n") != 1 {
		t.Errorf("without text: %q", out)
	}
	must(t, []string{"lines came back"}, "tcp", "--hold", "50ms", "--interval", "10ms", addr, "again")
	if out, code := cli("tcp", "127.0.0.1:1"); code != 1 || !strings.Contains(out, "refused") {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestUDPEcho(t *testing.T) {
	s := start(t)
	out := must(t, []string{"pod echo-1 namespace demo node node-1 client 127.0.0.1:", "\nhi\n"}, "udp", "-n", "2", s.Addr("udp").String(), "hi")
	if strings.Count(out, "pod echo-1") != 2 {
		t.Errorf("got %q", out)
	}
	if out, code := cli("udp", "--timeout", "50ms", "127.0.0.1:1"); code != 1 || !strings.Contains(out, "1 of 1 datagrams without answer") {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestUDPAnswersFromTheAddressAsked(t *testing.T) {
	s := start(t, func(c *Config) { c.UDP = ":0" })
	port := netip.MustParseAddrPort(s.Addr("udp").String()).Port()
	must(t, []string{"pod echo-1"}, "udp", fmt.Sprintf("127.0.0.9:%d", port))
	if len(s.udp) == 2 {
		must(t, []string{"pod echo-1"}, "udp", fmt.Sprintf("[::1]:%d", port))
	}
}

func TestGRPC(t *testing.T) {
	s := start(t)
	must(t, []string{"pod echo-1 namespace demo node node-1 client 127.0.0.1:", "\nhello"}, "grpc", s.Addr("http").String(), "hello")
	must(t, []string{"pod echo-1", "\nsecret"}, "grpc", "--tls", "-k", "--authority", "shop.example", s.Addr("tls").String(), "secret")
	if out, code := cli("grpc", "--timeout", "300ms", "127.0.0.1:1"); code != 1 {
		t.Errorf("exit %d, %s", code, out)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.Addr("http").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for ready, want := range map[bool]healthpb.HealthCheckResponse_ServingStatus{true: healthpb.HealthCheckResponse_SERVING, false: healthpb.HealthCheckResponse_NOT_SERVING} {
		s.ready.Store(ready)
		if r, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || r.Status != want {
			t.Errorf("ready %v: %v, %v", ready, r, err)
		}
	}
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chatMethod)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		out := &wrapperspb.StringValue{}
		if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(out); err != nil || !strings.HasSuffix(out.Value, "\n"+text) {
			t.Errorf("got %v, %v", out, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&wrapperspb.StringValue{}); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
}

func TestWebSocket(t *testing.T) {
	s := start(t)
	must(t, []string{"pod echo-1", "\nhello\n"}, "ws", "ws://"+s.Addr("http").String()+"/ws", "hello")
	must(t, []string{"pod echo-1", "\nhello\n"}, "ws", "-k", "wss://"+s.Addr("tls").String()+"/ws", "hello")
	_, tlsPort, _ := net.SplitHostPort(s.Addr("tls").String())
	must(t, []string{"pod echo-1", "\nhello\n"}, "ws", "-k", "-resolve", "shop.example=127.0.0.1", "wss://shop.example:"+tlsPort+"/ws", "hello")
	if out, code := cli("ws", "http://"+s.Addr("http").String()+"/other"); code != 1 {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	s := start(t, func(c *Config) { c.Drain, c.Grace = 200*time.Millisecond, 2*time.Second })
	base := "http://" + s.Addr("http").String()
	tcp, err := net.Dial("tcp", s.Addr("tcp").String())
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	in := bufio.NewReader(tcp)
	in.ReadString('\n')
	var wg sync.WaitGroup
	wg.Go(func() { // outlives the drain
		must(t, []string{"pod        echo-1"}, "get", base+"/sleep?ms=500")
	})
	time.Sleep(50 * time.Millisecond)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	time.Sleep(50 * time.Millisecond)

	resp, err := http.Get(base + "/readyz")
	if err != nil || resp.StatusCode != 503 || !resp.Close {
		t.Fatalf("while draining it is not ready, served, and closes: %+v, %v", resp, err)
	}
	resp.Body.Close()
	if _, err := http.Post(base+"/readyz/on", "", nil); err != nil || s.ready.Load() {
		t.Errorf("readiness came back: %v", err)
	}
	fmt.Fprintln(tcp, "still there")
	if line, err := in.ReadString('\n'); err != nil || line != "still there\n" {
		t.Errorf("an open TCP connection: %q, %v", line, err)
	}
	time.Sleep(200 * time.Millisecond)
	if out, code := cli("get", base); code != 1 || !strings.Contains(out, "refused") {
		t.Errorf("after the drain nobody new is let in: exit %d, %s", code, out)
	}
	tcp.Close()
	wg.Wait()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestStopEndsWhenItsContextEnds(t *testing.T) {
	s := start(t, func(c *Config) { c.Drain = time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); err == nil {
		t.Error("no error")
	}
}

func TestLoadCountsWhatFailsAndWhy(t *testing.T) {
	s := start(t)
	base := "http://" + s.Addr("http").String()
	for _, mode := range [][]string{nil, {"--new"}} {
		out := must(t, nil, append([]string{"load", "--for", "200ms", "--rate", "100", "--json", base}, mode...)...)
		var r loadReport
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.Requests != 20 || r.Failed != 0 || r.Pods["echo-1"] != 20 || r.P50 <= 0 || r.Max < r.P99 {
			t.Errorf("%v: %+v, %v", mode, r, err)
		}
	}
	for url, reason := range map[string]string{base + "/status?code=503": "status 503", "http://127.0.0.1:1/": "connection refused",
		base + "/sleep?ms=1000": "timeout"} {
		out, code := cli("load", "--for", "50ms", "--rate", "100", "--timeout", "100ms", url)
		if code != 1 || !strings.Contains(out, "failed      5  "+reason) || !strings.Contains(out, "5 of 5 requests failed") {
			t.Errorf("%s: exit %d, %s", url, code, out)
		}
	}
}

func TestLoadOfACertainNumberWaitsWhereTheServerIsSlow(t *testing.T) {
	s := start(t)
	url := "http://" + s.Addr("http").String() + "/sleep?ms=50"
	began := time.Now()
	out := must(t, nil, "load", "-n", "12", "-most", "3", "-rate", "1000", "-json", url)
	var r loadReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Requests != 12 || r.Failed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if took := time.Since(began); took < 4*50*time.Millisecond {
		t.Errorf("12 requests of 50 ms, 3 at a time, took %s", took)
	}
}

func TestLoadSeesACutConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			bufio.NewReader(c).ReadString('\n')
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			c.(*net.TCPConn).CloseWrite()
			time.AfterFunc(100*time.Millisecond, func() { c.Close() })
		}
	}()
	out, code := cli("load", "--for", "20ms", "--rate", "100", "http://"+l.Addr().String())
	if code != 1 || !strings.Contains(out, "connection closed") {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestDig(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg).SetReply(q)
		rr, ok := map[string]string{"A echo.demo.svc.cluster.local.": "5 IN A 10.96.0.7", "SRV _http._tcp.echo.demo.svc.cluster.local.": "5 IN SRV 0 100 80 echo.demo.svc.cluster.local."}[dns.TypeToString[q.Question[0].Qtype]+" "+q.Question[0].Name]
		if a.Rcode = dns.RcodeNameError; ok {
			record, _ := dns.NewRR(q.Question[0].Name + " " + rr)
			a.Rcode, a.Answer = dns.RcodeSuccess, []dns.RR{record}
		}
		w.WriteMsg(a)
	})}
	go server.ActivateAndServe()
	defer server.Shutdown()
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver 192.0.2.1\nsearch demo.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := "@" + pc.LocalAddr().String()
	must(t, []string{"echo.demo.svc.cluster.local. 5 IN A 10.96.0.7\n"}, "dig", "--conf", conf, "A", "echo", at)
	must(t, []string{"echo.demo.svc.cluster.local. 5 IN A 10.96.0.7\n"}, "dig", "--conf", conf, at, "echo.demo")
	must(t, []string{"0 100 80 echo.demo.svc.cluster.local.\n"}, "dig", "--short", "--conf", "/nonexistent", "SRV", "_http._tcp.echo.demo.svc.cluster.local", at)
	if out, code := cli("dig", "--conf", conf, "AAAA", "nope", at); code != 1 || !strings.Contains(out, "AAAA nope.: NXDOMAIN") {
		t.Errorf("exit %d, %s", code, out)
	}
	if out, code := cli("dig", "--conf", "/nonexistent", "A", "echo"); code != 1 {
		t.Errorf("no server: exit %d, %s", code, out)
	}
}

func TestAnAddressThatIsTakenIsAnError(t *testing.T) {
	s := start(t)
	for _, what := range []string{"http", "tls", "tcp"} {
		c := Config{}
		*map[string]*string{"http": &c.HTTP, "tls": &c.TLS, "tcp": &c.TCP}[what] = s.Addr(what).String()
		if other, err := Start(c); err == nil {
			other.closeAll()
			t.Errorf("%s: no error", what)
		}
	}
}

func TestIdentityComesFromTheEnvironment(t *testing.T) {
	t.Setenv("POD_NAME", "p")
	t.Setenv("POD_NAMESPACE", "s")
	t.Setenv("NODE_NAME", "n")
	if got := Me(); got != (Identity{"p", "s", "n"}) {
		t.Errorf("got %+v", got)
	}
	t.Setenv("POD_NAME", "")
	if host, _ := os.Hostname(); Me().Pod != host {
		t.Errorf("got %+v, want the host name %s", Me(), host)
	}
}
