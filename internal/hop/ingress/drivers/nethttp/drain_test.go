package nethttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/ingress/certs/certstest"
	"github.com/podway/podway/internal/model"
)

func TestDrainingGoesOnAcceptingAndSendsClientsAway(t *testing.T) {
	release := make(chan struct{})
	cert := certstest.Secret(t, model.N("shop", "cert"), "shop.example")
	s := simple(t, func(o *Options) { o.Quiet = 200 * time.Millisecond }, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
		io.WriteString(w, "whole")
	}))
	s.put(cert, secured(rule("web", "shop.example", "/", "web"), "cert", "shop.example"))
	c2 := s.client(true, cert)
	addr := s.addr()
	do(t, c2, must(http.NewRequest("GET", "https://shop.example/", nil)))
	slow := make(chan string, 1)
	go func() { _, body := s.get("http://shop.example/slow"); slow <- body }()
	eventually(t, "one in flight", func() bool { return s.srv.InFlight() == 1 })

	ended := make(chan error, 1)
	go func() { ended <- s.srv.Drain(context.Background()) }()
	eventually(t, "draining", s.srv.draining.Load)
	for range 3 {
		res, err := s.client(false).Get("http://shop.example/")
		if err != nil {
			t.Fatalf("a new connection while draining: %v", err)
		}
		res.Body.Close()
		if !res.Close {
			t.Error("the answer does not say Connection: close")
		}
		if status, _ := do(t, c2, must(http.NewRequest("GET", "https://shop.example/", nil))); status != 200 {
			t.Errorf("HTTP/2 while draining: %d", status)
		}
	}
	select {
	case <-ended:
		t.Fatal("ended while a request was in flight")
	case <-time.After(400 * time.Millisecond):
	}
	close(release)
	if got := <-slow; got != "whole" {
		t.Errorf("the request in flight got %q", got)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("drain: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("does not end when all is quiet")
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("still accepts after the end")
	}
	if err := s.srv.Start(); err == nil {
		t.Error("a server that was closed starts again")
	}
}

func TestDrainingEndsAtItsDeadlineWithUpgradedConnections(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(echoSocket))
	c := must(net.Dial("tcp", s.addr()))
	defer c.Close()
	rw := s.socket(c)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.srv.Drain(ctx) }()
	eventually(t, "draining", s.srv.draining.Load)
	if err := echoes(rw, "still here\n"); err != nil {
		t.Errorf("while draining: %v", err)
	}
	<-ended
	if _, err := rw.ReadString('\n'); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("after the deadline: %v", err)
	}
	eventually(t, "nothing in flight", func() bool { return s.srv.InFlight() == 0 })
}

func TestNothingListensBeforeTheFirstTable(t *testing.T) {
	if err := New(Options{}).Start(); err == nil {
		t.Error("a server without a table would answer 404 to all")
	}
}

func TestStartOpensAllOrNothing(t *testing.T) {
	taken := must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	s := simple(t, nil, named("web"))
	o := s.srv.opt
	o.HTTPS = append(o.HTTPS, addrPort(taken))
	srv := New(o)
	srv.Use(s.table)
	if err := srv.Start(); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("got %v", err)
	}
	if a := srv.Addrs(); len(a) != 0 {
		t.Errorf("listens on %v", a)
	}
}
