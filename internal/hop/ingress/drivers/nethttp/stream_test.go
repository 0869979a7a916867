package nethttp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"crypto/tls"
	"crypto/x509"

	"github.com/podway/podway/internal/hop/ingress/certs/certstest"
	"github.com/podway/podway/internal/model"
)

// echoSocket upgrades and echoes lines; it answers the rest with 426.
func echoSocket(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: %s\r\n\r\nhello\n", r.Header.Get("Sec-Websocket-Protocol"))
	buf.Flush()
	for {
		line, err := buf.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprint(buf, line)
		buf.Flush()
	}
}

// socket opens a WebSocket and returns it after the greeting.
func (s *site) socket(c net.Conn) *bufio.ReadWriter {
	s.t.Helper()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, "GET /chat HTTP/1.1\r\nHost: shop.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Protocol: chat, superchat\r\n\r\n")
	rw := bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
	head, err := readHead(rw.Reader)
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Sec-Websocket-Protocol: chat, superchat\r\n") {
		s.t.Fatalf("%v: %s", err, head)
	}
	if line, _ := rw.ReadString('\n'); line != "hello\n" {
		s.t.Fatalf("greeting %q", line)
	}
	return rw
}

func echoes(rw *bufio.ReadWriter, line string) error {
	rw.WriteString(line)
	if err := rw.Flush(); err != nil {
		return err
	}
	got, err := rw.ReadString('\n')
	if err != nil || got != line {
		return fmt.Errorf("got %q: %w", got, err)
	}
	return nil
}

func TestAWebSocketOutlivesEveryChangeOfTheRoutes(t *testing.T) {
	cert := certstest.Secret(t, model.N("shop", "cert"), "shop.example")
	s := simple(t, nil, http.HandlerFunc(echoSocket))
	s.put(cert, secured(rule("web", "shop.example", "/", "web"), "cert", "shop.example"))
	plain := s.socket(must(net.Dial("tcp", s.addr())))
	secure := s.socket(must(tls.Dial("tcp", s.tlsAddr(), &tls.Config{InsecureSkipVerify: true})))
	both := func(when string) {
		t.Helper()
		for _, rw := range []*bufio.ReadWriter{plain, secure} {
			if err := echoes(rw, "\x00\xffany bytes\r\x01\n"); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	both("at first")
	s.put(rule("other", "other.example", "/", "other"), service("other"))
	both("after another Ingress came")
	s.put(at("web", 0, closedPort(t)))
	both("after the endpoint left")
	s.build.Delete(rule("web", "", "", ""))
	s.apply()
	both("after the Ingress was deleted")
	if n := s.srv.InFlight(); n != 2 {
		t.Errorf("%d in flight, want 2", n)
	}
}

func TestAWebSocketEndsOnBothSides(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(echoSocket))
	c := must(net.Dial("tcp", s.addr()))
	s.socket(c)
	c.Close()
	eventually(t, "nothing in flight", func() bool { return s.srv.InFlight() == 0 })
	if n := s.obs.get(func() int { return s.obs.done[101] }); n != 1 {
		t.Errorf("counted %d answers 101", n)
	}
}

func TestARefusedUpgradeLeavesAnHTTPConnection(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	c := must(net.Dial("tcp", s.addr()))
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	in := bufio.NewReader(c)
	for _, tt := range []struct{ request, want string }{
		{"GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "HTTP/1.1 403"},
		{"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n", "HTTP/1.1 403"},
		{"GET / HTTP/1.1\nHost: shop.example\r\n\r\n", "HTTP/1.1 400"},
	} {
		io.WriteString(c, tt.request)
		if head, _ := readHead(in); !strings.HasPrefix(head, tt.want) {
			t.Fatalf("got %q, want %s", head, tt.want)
		}
	}
}

// grpcSite is a site whose Service is a gRPC health server, told by appProtocol or by annotation.
func grpcSite(t *testing.T, annotated bool) (*site, *health.Server, *model.Secret) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	srv, h := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(srv, h)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	svc, ing := service("web"), rule("web", "shop.example", "/", "web")
	if annotated {
		ing.Annotations = map[string]string{"nginx.ingress.kubernetes.io/backend-protocol": "GRPC"}
	} else {
		svc.Ports[0].AppProtocol = "kubernetes.io/h2c"
	}
	cert := certstest.Secret(t, model.N("shop", "cert"), "shop.example")
	return newSite(t, nil, svc, at("web", 0, netip.MustParseAddrPort(l.Addr().String())), secured(ing, "cert", "shop.example"), cert), h, cert
}

func TestGRPC(t *testing.T) {
	for _, annotated := range []bool{false, true} {
		s, h, cert := grpcSite(t, annotated)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(cert.Cert)
		for name, conn := range map[string]*grpc.ClientConn{
			"over TLS": must(grpc.NewClient("passthrough:///"+s.tlsAddr(), grpc.WithAuthority("shop.example"),
				grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "shop.example"})))),
			"with prior knowledge": must(grpc.NewClient("passthrough:///"+s.addr(), grpc.WithAuthority("shop.example"),
				grpc.WithTransportCredentials(insecure.NewCredentials()))),
		} {
			t.Run(fmt.Sprintf("%s, annotated %v", name, annotated), func(t *testing.T) {
				defer conn.Close()
				checkHealth(t, healthpb.NewHealthClient(conn), h)
			})
		}
	}
}

func checkHealth(t *testing.T, c healthpb.HealthClient, h *health.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	h.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	var trailer metadata.MD
	res, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: "shop"}, grpc.Trailer(&trailer))
	if err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("unary call: %v %v", res, err)
	}
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("an error in trailers alone: %v", err)
	}
	watch, err := c.Watch(ctx, &healthpb.HealthCheckRequest{Service: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []healthpb.HealthCheckResponse_ServingStatus{1, 2, 1, 2} {
		if i > 0 {
			h.SetServingStatus("shop", want)
		}
		if got, err := watch.Recv(); err != nil || got.Status != want {
			t.Fatalf("message %d of a stream: %v %v, want %v", i, got, err, want)
		}
	}
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	idle, err := c.Watch(short, &healthpb.HealthCheckRequest{Service: "shop"})
	if err == nil {
		idle.Recv()
		_, err = idle.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a deadline: %v", err)
	}
}

func TestGRPCWithoutEndpointIsUnavailable(t *testing.T) {
	s, _, _ := grpcSite(t, false)
	s.build.Delete(at("web", 0, netip.AddrPort{}))
	s.apply()
	conn := must(grpc.NewClient("passthrough:///"+s.addr(), grpc.WithAuthority("shop.example"), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestBackendsOverTLS(t *testing.T) {
	up := newTLSBackend(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %v", r.Proto, r.Host, r.TLS != nil)
	})
	svc := service("web")
	svc.Ports[0].AppProtocol = "https"
	s := newSite(t, nil, svc, at("web", 0, up), rule("web", "shop.example", "/", "web"))
	if status, body := s.get("http://shop.example/"); status != 200 || body != "HTTP/1.1 shop.example true" {
		t.Errorf("https: %d %q", status, body)
	}
	ing := rule("web", "shop.example", "/", "web")
	ing.Annotations = map[string]string{"podway.io/backend-protocol": "GRPCS"}
	s.put(ing)
	if status, body := s.get("http://shop.example/"); status != 200 || body != "HTTP/2.0 shop.example true" {
		t.Errorf("h2: %d %q", status, body)
	}
}

func newTLSBackend(t *testing.T, h http.HandlerFunc) netip.AddrPort {
	secret := certstest.Secret(t, model.N("x", "y"), "backend")
	pair := must(tls.X509KeyPair(secret.Cert, secret.Key))
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	srv := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	go srv.ServeTLS(l, "", "")
	t.Cleanup(func() { srv.Close() })
	return netip.MustParseAddrPort(l.Addr().String())
}
