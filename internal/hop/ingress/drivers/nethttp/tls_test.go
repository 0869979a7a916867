package nethttp

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/ingress/certs/certstest"
	"github.com/podway/podway/internal/model"
)

// secured adds TLS to an Ingress.
func secured(i *model.Ingress, secret string, hosts ...string) *model.Ingress {
	i.TLS = append(i.TLS, model.IngressTLS{Secret: secret, Hosts: hosts})
	return i
}

// serial dials with a server name and says whose certificate it was given: its serial number.
func (s *site) serial(name string) string {
	s.t.Helper()
	c, err := tls.Dial("tcp", s.tlsAddr(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestTheCertificateIsThatOfTheServerName(t *testing.T) {
	exact := certstest.Secret(t, model.N("shop", "exact"), "www.shop.example")
	wild := certstest.Secret(t, model.N("shop", "wild"), "*.shop.example")
	own := certstest.Secret(t, model.N("shop", "own"), "own.example", "*.own.example")
	s := newSite(t, nil, exact, wild, own,
		secured(rule("one", "www.shop.example", "/", "web"), "exact", "WWW.shop.example"),
		secured(rule("two", "*.shop.example", "/", "web"), "wild", "*.shop.example"),
		secured(rule("three", "own.example", "/", "web"), "own"))
	self := s.serial("unknown.example")
	for _, tt := range []struct{ name, want string }{
		{"www.shop.example", exact.ResourceVersion},
		{"WWW.Shop.Example", exact.ResourceVersion},
		{"api.shop.example", wild.ResourceVersion},
		{"a.b.shop.example", self},
		{"shop.example", self},
		{"own.example", own.ResourceVersion},
		{"x.own.example", own.ResourceVersion},
		{"", self},
	} {
		if got := s.serial(tt.name); got != tt.want {
			t.Errorf("%q: serial %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestASecretIsRotatedWhileConnectionsStay(t *testing.T) {
	first := certstest.Secret(t, model.N("shop", "cert"), "shop.example")
	s := newSite(t, nil, first, service("web"), at("web", 0, addrOf(backend(t, named("web")))),
		secured(rule("web", "shop.example", "/", "web"), "cert", "shop.example"))
	old := s.client(false, first)
	if status, _ := do(t, old, must(http.NewRequest("GET", "https://shop.example/", nil))); status != 200 {
		t.Fatal(status)
	}
	second := certstest.Secret(t, model.N("shop", "cert"), "shop.example")
	s.put(second)
	if got := s.serial("shop.example"); got != second.ResourceVersion {
		t.Error("the new certificate is not served")
	}
	if status, _ := do(t, old, must(http.NewRequest("GET", "https://shop.example/", nil))); status != 200 {
		t.Error("the connection made before did not stay")
	}

	broken := *second
	broken.Key = first.Key
	s.put(&broken)
	if got := s.serial("shop.example"); got != second.ResourceVersion {
		t.Error("a key that does not fit: the last good certificate is not served")
	}
	s.build.Delete(second)
	s.apply()
	if got := s.serial("shop.example"); got != second.ResourceVersion {
		t.Error("a Secret that is gone: the last good certificate is not served")
	}
	s.put(secured(rule("web", "shop.example", "/", "web"), "missing", "shop.example"))
	if got := s.serial("shop.example"); got != second.ResourceVersion {
		t.Error("the name of a Secret that does not exist: the last good certificate is not served")
	}
	third := certstest.Secret(t, model.N("shop", "missing"), "shop.example")
	s.put(third)
	if got := s.serial("shop.example"); got != third.ResourceVersion {
		t.Error("the Secret came: its certificate is not served")
	}
	s.put(rule("web", "shop.example", "/", "web"))
	if got := s.serial("shop.example"); got == third.ResourceVersion {
		t.Error("no Ingress has TLS for the host any more: the default certificate is not served")
	}
}

func TestABadSecretTouchesNoOtherHost(t *testing.T) {
	good := certstest.Secret(t, model.N("shop", "good"), "good.example")
	s := newSite(t, nil, good, &model.Secret{Name: model.N("shop", "bad"), Cert: []byte("x"), Key: []byte("y")},
		secured(rule("one", "good.example", "/", "web"), "good", "good.example"),
		secured(rule("two", "bad.example", "/", "web"), "bad", "bad.example"))
	if got := s.serial("good.example"); got != good.ResourceVersion {
		t.Error("the good host lost its certificate")
	}
	if got := s.serial("bad.example"); got != s.serial("unknown.example") {
		t.Error("the bad host has not the default certificate")
	}
}

func TestHTTP2IsNegotiatedAndOlderTLSIsNot(t *testing.T) {
	cert := certstest.Secret(t, model.N("shop", "cert"), "*.shop.example")
	s := newSite(t, nil, cert, service("web"), at("web", 0, addrOf(backend(t, http.HandlerFunc(seen)))),
		secured(rule("a", "a.shop.example", "/", "web"), "cert", "*.shop.example"))
	for _, h2 := range []bool{true, false} {
		res, err := s.client(h2, cert).Get("https://a.shop.example/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if (res.ProtoMajor == 2) != h2 {
			t.Errorf("h2 %v: got %s", h2, res.Proto)
		}
		for _, w := range []string{"X-Forwarded-Proto: https", "X-Forwarded-Port: 443", "Host: a.shop.example\n"} {
			if !strings.Contains(string(body), w) {
				t.Errorf("h2 %v: lacks %q:\n%s", h2, w, body)
			}
		}
	}
	if _, err := tls.Dial("tcp", s.tlsAddr(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

// A browser may use one HTTP/2 connection for all hosts that the certificate covers.
func TestACoalescedConnectionIsRoutedByAuthority(t *testing.T) {
	cert := certstest.Secret(t, model.N("shop", "cert"), "*.shop.example")
	s := newSite(t, nil, cert, service("a"), service("b"), at("a", 0, addrOf(backend(t, named("a")))), at("b", 0, addrOf(backend(t, named("b")))),
		secured(rule("a", "a.shop.example", "/", "a"), "cert", "*.shop.example"), rule("b", "b.shop.example", "/", "b"))
	c := s.client(true, cert)
	for _, host := range []string{"a", "b", "a"} {
		r := must(http.NewRequest("GET", "https://a.shop.example/", nil))
		r.Host = host + ".shop.example"
		if _, body := do(t, c, r); !strings.HasPrefix(body, host+" ") {
			t.Errorf("%s got %q", host, body)
		}
	}
}

func TestAHandshakeThatDoesNotComeHoldsNobodyUp(t *testing.T) {
	cert := certstest.Secret(t, model.N("shop", "cert"), "shop.example")
	s := newSite(t, nil, cert, secured(rule("web", "shop.example", "/", "web"), "cert", "shop.example"))
	for range 50 {
		c := must(net.Dial("tcp", s.tlsAddr()))
		defer c.Close()
	}
	begin := time.Now()
	if got := s.serial("shop.example"); got != cert.ResourceVersion || time.Since(begin) > 3*time.Second {
		t.Errorf("serial %s after %v", got, time.Since(begin))
	}
}

func TestPlainHTTPOnTheTLSPortDoesNotHang(t *testing.T) {
	s := newSite(t, nil)
	c := must(net.Dial("tcp", s.tlsAddr()))
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		return // an alert or an answer: both are fine
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("no answer and no end")
	}
}

func TestALargeBodyOverHTTP2(t *testing.T) {
	const size = 8 << 20
	cert := certstest.Secret(t, model.N("shop", "cert"), "shop.example")
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		if n, err := io.Copy(w, r.Body); n != size || err != nil {
			t.Errorf("the endpoint read %d bytes: %v", n, err)
		}
	}))
	s.put(cert, secured(rule("web", "shop.example", "/", "web"), "cert", "shop.example"))
	res, err := s.client(true, cert).Post("https://shop.example/", "application/octet-stream", &pattern{left: size})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	want, got := &pattern{left: size}, make([]byte, 32<<10)
	for total := 0; ; {
		n, err := io.ReadFull(res.Body, got)
		expected := make([]byte, n)
		io.ReadFull(want, expected)
		if !bytes.Equal(got[:n], expected) {
			t.Fatalf("the echo differs after %d bytes", total)
		}
		if total += n; err != nil {
			if total != size {
				t.Errorf("%d bytes came back: %v", total, err)
			}
			return
		}
	}
}
