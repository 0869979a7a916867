package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func ask(name string) *dns.Msg { return new(dns.Msg).SetQuestion(name, dns.TypeA) }

// reply answers with one address.
func reply(q *dns.Msg) *dns.Msg {
	a := new(dns.Msg).SetReply(q)
	rr, _ := dns.NewRR(q.Question[0].Name + " 60 IN A 192.0.2.1")
	a.Answer = []dns.RR{rr}
	return a
}

// serveUDP passes every question to answer, with a way to send datagrams back.
func serveUDP(t *testing.T, answer func(q *dns.Msg, from string, send func([]byte))) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	pc.(*net.UDPConn).SetReadBuffer(1 << 22) // a burst is not what is tested
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buf[:n]) == nil {
				answer(q, from.String(), func(b []byte) { pc.WriteTo(b, from) })
			}
		}
	}()
	return netip.MustParseAddrPort(pc.LocalAddr().String())
}

func pack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newLink(t *testing.T, o Options) *Link {
	l := New(o)
	t.Cleanup(l.Close)
	return l
}

// exchange asks within two seconds.
func exchange(t *testing.T, l *Link, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return l.Exchange(ctx, q)
}

func TestManyQuestionsShareFewSockets(t *testing.T) {
	var mu sync.Mutex
	ports, ids := map[string]bool{}, map[uint16]int{}
	addr := serveUDP(t, func(q *dns.Msg, from string, send func([]byte)) {
		mu.Lock()
		ports[from] = true
		ids[q.Id]++
		mu.Unlock()
		b := pack(t, reply(q))
		time.AfterFunc(20*time.Millisecond, func() { send(b) })
	})
	l := newLink(t, Options{Addr: addr})
	var wg sync.WaitGroup
	for i := range 150 {
		wg.Go(func() {
			name := fmt.Sprintf("n%d.example.", i)
			m, err := exchange(t, l, ask(name))
			if err != nil || m.Question[0].Name != name || len(m.Answer) != 1 || m.Answer[0].Header().Name != name {
				t.Errorf("%s: %v, %v", name, m, err)
			}
		})
	}
	wg.Wait()
	if len(ports) < 2 || len(ports) > maxSockets || len(ids) < 130 {
		t.Errorf("%d ports and %d IDs for 150 questions", len(ports), len(ids))
	}
}

func TestAPortIsNotUsedForLong(t *testing.T) {
	ports := map[string]bool{}
	var mu sync.Mutex
	addr := serveUDP(t, func(q *dns.Msg, from string, send func([]byte)) {
		mu.Lock()
		ports[from] = true
		mu.Unlock()
		send(pack(t, reply(q)))
	})
	l := newLink(t, Options{Addr: addr})
	for range 2*portUses + 1 {
		if _, err := exchange(t, l, ask("x.example.")); err != nil {
			t.Fatal(err)
		}
	}
	if len(ports) < 3 {
		t.Errorf("%d questions left from %d ports", 2*portUses+1, len(ports))
	}
}

func TestForgedAnswersArePassedOver(t *testing.T) {
	for name, forge := range map[string]func(a *dns.Msg) []byte{
		"wrong ID":       func(a *dns.Msg) []byte { a.Id++; return pack(t, a) },
		"other name":     func(a *dns.Msg) []byte { a.Question[0].Name = "y.example."; return pack(t, a) },
		"other type":     func(a *dns.Msg) []byte { a.Question[0].Qtype = dns.TypeAAAA; return pack(t, a) },
		"other class":    func(a *dns.Msg) []byte { a.Question[0].Qclass = dns.ClassCHAOS; return pack(t, a) },
		"a question":     func(a *dns.Msg) []byte { a.Response = false; return pack(t, a) },
		"other opcode":   func(a *dns.Msg) []byte { a.Opcode = dns.OpcodeNotify; return pack(t, a) },
		"no question":    func(a *dns.Msg) []byte { a.Question = nil; return pack(t, a) },
		"two questions":  func(a *dns.Msg) []byte { a.Question = append(a.Question, a.Question[0]); return pack(t, a) },
		"nonsense":       func(a *dns.Msg) []byte { return append(pack(t, a)[:40], 0xff) },
		"a bare header":  func(a *dns.Msg) []byte { return pack(t, &dns.Msg{MsgHdr: a.MsgHdr}) },
		"pointer circle": func(a *dns.Msg) []byte { b := pack(t, a); b[len(b)-16], b[len(b)-15] = 0xc0, byte(len(b)-16); return b },
		"nothing":        func(*dns.Msg) []byte { return nil },
	} {
		addr := serveUDP(t, func(q *dns.Msg, _ string, send func([]byte)) {
			send(forge(reply(q)))
			true_ := reply(q)
			true_.Answer[0].Header().Ttl = 7
			send(pack(t, true_))
		})
		m, err := exchange(t, newLink(t, Options{Addr: addr}), ask("x.example."))
		if err != nil || len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 7 {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

func TestAFailureWithoutQuestionCounts(t *testing.T) {
	addr := serveUDP(t, func(q *dns.Msg, _ string, send func([]byte)) {
		send(pack(t, &dns.Msg{MsgHdr: dns.MsgHdr{Id: q.Id, Response: true, Rcode: dns.RcodeFormatError}}))
	})
	m, err := exchange(t, newLink(t, Options{Addr: addr}), ask("x.example."))
	if err != nil || m.Rcode != dns.RcodeFormatError {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestAClosedPortFailsAtOnce(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(pc.LocalAddr().String())
	pc.Close()
	for _, proto := range []Proto{UDP, TCP} {
		began := time.Now()
		_, err = exchange(t, newLink(t, Options{Addr: addr, Proto: proto}), ask("x.example."))
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) > time.Second {
			t.Errorf("%s: got %v after %v", proto, err, time.Since(began))
		}
	}
}

func TestAQuestionThatIsGivenUpIsForgotten(t *testing.T) {
	addr := serveUDP(t, func(*dns.Msg, string, func([]byte)) {})
	l := newLink(t, Options{Addr: addr})
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := l.Exchange(ctx, ask("x.example.")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	for s := range l.udp.all {
		if n := s.calls.count(); n != 0 {
			t.Errorf("%d questions are still waited for", n)
		}
	}
}

// serveTCP passes every connection's questions to answer, which may answer in any order.
func serveTCP(t *testing.T, tlsConfig *tls.Config, answer func(c *dns.Conn, q *dns.Msg)) (netip.AddrPort, *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(l.Addr().String())
	if tlsConfig != nil {
		l = tls.NewListener(l, tlsConfig)
	}
	t.Cleanup(func() { l.Close() })
	var conns atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer conn.Close()
				c := &dns.Conn{Conn: conn}
				for {
					q, err := c.ReadMsg()
					if err != nil {
						return
					}
					answer(c, q)
				}
			}()
		}
	}()
	return addr, &conns
}

func TestOneConnectionCarriesManyQuestionsInAnyOrder(t *testing.T) {
	var mu sync.Mutex
	var held []*dns.Msg
	addr, conns := serveTCP(t, nil, func(c *dns.Conn, q *dns.Msg) {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, q)
		if len(held) < 20 {
			return
		}
		for i := range held { // the last first
			c.WriteMsg(reply(held[len(held)-1-i]))
		}
		held = nil
	})
	l := newLink(t, Options{Addr: addr, Proto: TCP})
	go exchange(t, l, ask("first.example.")) // opens the connection
	time.Sleep(50 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 19 {
		wg.Go(func() {
			name := fmt.Sprintf("n%d.example.", i)
			if m, err := exchange(t, l, ask(name)); err != nil || m.Answer[0].Header().Name != name {
				t.Errorf("%s: %v, %v", name, m, err)
			}
		})
	}
	wg.Wait()
	if conns.Load() != 1 || l.Reused.Load() < 19 {
		t.Errorf("%d connections, reused %d times", conns.Load(), l.Reused.Load())
	}
}

func TestAConnectionThatTheServerClosedIsReplaced(t *testing.T) {
	addr, conns := serveTCP(t, nil, func(c *dns.Conn, q *dns.Msg) {
		c.WriteMsg(reply(q))
		c.Close()
	})
	l := newLink(t, Options{Addr: addr, Proto: TCP})
	for range 5 {
		if _, err := exchange(t, l, ask("x.example.")); err != nil {
			t.Error(err)
		}
	}
	if conns.Load() != 5 {
		t.Errorf("%d connections", conns.Load())
	}
}

func TestAnUnusedConnectionIsClosed(t *testing.T) {
	addr, _ := serveTCP(t, nil, func(c *dns.Conn, q *dns.Msg) { c.WriteMsg(reply(q)) })
	l := newLink(t, Options{Addr: addr, Proto: TCP, Idle: 50 * time.Millisecond})
	if _, err := exchange(t, l, ask("x.example.")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		l.stream.mu.Lock()
		n := len(l.stream.open)
		l.stream.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the connection is still open")
		}
	}
	if _, err := exchange(t, l, ask("x.example.")); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

func TestAConnectionOnWhichNothingComesIsReplaced(t *testing.T) {
	var silent atomic.Bool
	silent.Store(true)
	addr, conns := serveTCP(t, nil, func(c *dns.Conn, q *dns.Msg) {
		if !silent.Load() {
			c.WriteMsg(reply(q))
		}
	})
	l := newLink(t, Options{Addr: addr, Proto: TCP})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Exchange(ctx, ask("x.example.")); err == nil {
		t.Fatal("an answer came")
	}
	silent.Store(false)
	if _, err := exchange(t, l, ask("x.example.")); err != nil || conns.Load() != 2 {
		t.Errorf("%v, %d connections", err, conns.Load())
	}
}

// certificate is a server's, signed by itself, and the pool that trusts it.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := x509.ParseCertificate(der)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLSChecksTheNameAndResumesItsSession(t *testing.T) {
	cert, pool := certificate(t, "dns.example")
	var resumed atomic.Int32
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, VerifyConnection: func(s tls.ConnectionState) error {
		if s.DidResume {
			resumed.Add(1)
		}
		return nil
	}}
	addr, conns := serveTCP(t, conf, func(c *dns.Conn, q *dns.Msg) {
		c.WriteMsg(reply(q))
		if q.Question[0].Name == "last.example." {
			c.Close()
		}
	})
	l := newLink(t, Options{Addr: addr, Proto: TLS, TLS: &tls.Config{ServerName: "dns.example", RootCAs: pool}})
	for _, name := range []string{"x.example.", "y.example.", "last.example.", "z.example."} {
		if m, err := exchange(t, l, ask(name)); err != nil || len(m.Answer) != 1 {
			t.Fatalf("%s: %v, %v", name, m, err)
		}
	}
	if conns.Load() != 2 || resumed.Load() != 1 {
		t.Errorf("%d connections, %d resumed", conns.Load(), resumed.Load())
	}
	wrong := newLink(t, Options{Addr: addr, Proto: TLS, TLS: &tls.Config{ServerName: "other.example", RootCAs: pool}})
	if m, err := exchange(t, wrong, ask("x.example.")); err == nil {
		t.Errorf("a certificate for another name was taken: %v", m)
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	addr := serveUDP(t, func(*dns.Msg, string, func([]byte)) {})
	l := New(Options{Addr: addr})
	ended := make(chan error)
	go func() { _, err := exchange(t, l, ask("x.example.")); ended <- err }()
	for l.Opened.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	l.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(time.Second):
		t.Error("the question is still waiting")
	}
}
