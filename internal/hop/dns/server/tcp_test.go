package server

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// dial opens a connection on which nothing may take longer than three seconds.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(3 * time.Second))
	return c
}

// isClosed reports whether the server closes a connection without a word.
func isClosed(t *testing.T, c net.Conn) bool {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return err != nil
}

func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	_, addr := start(t, Options{MaxConns: 4})
	var silent []net.Conn
	for range 4 {
		silent = append(silent, dial(t, addr))
		time.Sleep(20 * time.Millisecond) // the server takes them in this order
	}
	silent[0].Write([]byte{0, 40, 1}) // the start of a question is no question
	for range 4 {
		if got := summary(ask(t, "tcp", addr, new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA))); got != "NOERROR aa A 10.96.0.7" {
			t.Errorf("got %s", got)
		}
	}
	if !isClosed(t, silent[0]) {
		t.Error("the connection that was silent longest is still open")
	}
}

func TestAConnectionThatWaitsForItsAnswerIsNotClosedForAnother(t *testing.T) {
	release := make(chan struct{})
	_, addr := start(t, Options{Upstream: slowUpstream{world, release}, MaxConns: 1})
	waiting := &dns.Conn{Conn: dial(t, addr)}
	if err := waiting.WriteMsg(new(dns.Msg).SetQuestion("example.com.", dns.TypeA)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if !isClosed(t, dial(t, addr)) {
		t.Error("a second connection is open, though one is the most")
	}
	close(release)
	if a, err := waiting.ReadMsg(); err != nil || len(a.Answer) != 1 {
		t.Errorf("got %v, %v", a, err)
	}
}

func TestALengthThatNoQuestionHasEndsTheConnection(t *testing.T) {
	_, addr := start(t, Options{})
	c := dial(t, addr)
	c.Write([]byte{0xff, 0xff, 1})
	if !isClosed(t, c) {
		t.Error("the server waits for 64 KiB of a question")
	}
}

func TestQuestionsOnOneConnectionAreAnsweredInABatch(t *testing.T) {
	_, addr := start(t, Options{})
	c := dial(t, addr)
	var all []byte
	for id := range uint16(100) {
		q := new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA)
		q.Id = id
		wire, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, byte(len(wire)>>8), byte(len(wire))), wire...)
	}
	go func() {
		for len(all) > 0 { // cut anywhere
			n := min(37, len(all))
			c.Write(all[:n])
			all = all[n:]
		}
	}()
	in := &dns.Conn{Conn: c}
	for id := range uint16(100) {
		a, err := in.ReadMsg()
		if err != nil || a.Id != id || len(a.Answer) != 1 {
			t.Fatalf("answer %d: %v, %v", id, a, err)
		}
	}
	c.(*net.TCPConn).CloseWrite()
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the client's end: %v", err)
	}
}
