package nethttp

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// What two programs could read differently must not reach an endpoint. Each request is followed by one that would only be
// seen if the first were framed in another way, or the connection stayed open.
func TestAmbiguousRequestsAreRefusedAndTheConnectionEnds(t *testing.T) {
	var seen atomic.Int64
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen.Add(1) }))
	const host = "Host: shop.example\r\n"
	const smuggled = "GET /smuggled HTTP/1.1\r\n" + host + "\r\n"
	for _, tt := range []struct{ name, request string }{
		{"length and encoding", "POST / HTTP/1.1\r\n" + host + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"two lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + smuggled},
		{"two equal lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx" + smuggled},
		{"an encoding nobody knows", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n" + smuggled},
		{"an encoding behind a control character", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding:\vchunked\r\n\r\n" + smuggled},
		{"an encoding in HTTP/1.0", "POST / HTTP/1.0\r\n" + host + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"a folded header", "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n" + smuggled},
		{"a bare LF", "GET / HTTP/1.1\r\n" + host + "X: a\nY: b\r\n\r\n" + smuggled},
		{"a bare CR", "GET / HTTP/1.1\r\n" + host + "X: a\rY: b\r\n\r\n" + smuggled},
		{"a space before a colon", "POST / HTTP/1.1\r\n" + host + "Content-Length : 44\r\n\r\n" + smuggled},
		{"a length with an underscore", "POST / HTTP/1.1\r\n" + host + "Content_Length: 44\r\n\r\n" + smuggled},
		{"two hosts", "GET / HTTP/1.1\r\n" + host + "Host: other.example\r\n\r\n" + smuggled},
		{"no host", "GET / HTTP/1.1\r\n\r\n" + smuggled},
		{"HTTP/1.2", "GET / HTTP/1.2\r\n" + host + "\r\n" + smuggled},
		{"HTTP/0.9", "GET /\r\n" + smuggled},
		{"a host that is none", "GET / HTTP/1.1\r\nHost: shop.example/x\r\n\r\n" + smuggled},
		{"dots in the path", "GET /a/../b HTTP/1.1\r\n" + host + "\r\n" + smuggled},
		{"encoded dots", "GET /a/%2e%2e/b HTTP/1.1\r\n" + host + "\r\n" + smuggled},
		{"dots behind an encoded slash", "GET /public/..%2fadmin HTTP/1.1\r\n" + host + "\r\n" + smuggled},
		{"dots with a parameter", "GET /public/..;/admin HTTP/1.1\r\n" + host + "\r\n" + smuggled},
		{"an encoded backslash", "GET /public/..%5cadmin HTTP/1.1\r\n" + host + "\r\n" + smuggled},
		{"NUL", "GET /a%00b HTTP/1.1\r\n" + host + "\r\n" + smuggled},
		{"an encoded line end", "GET /a%0d%0ab HTTP/1.1\r\n" + host + "\r\n" + smuggled},
		{"half an encoding", "GET /a%2 HTTP/1.1\r\n" + host + "\r\n" + smuggled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := seen.Load()
			answer := s.raw(tt.request)
			if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || strings.Count(answer, "HTTP/1.1") != 1 || !strings.Contains(answer, "Connection: close") {
				t.Errorf("got\n%s", answer)
			}
			if n := seen.Load() - before; n != 0 {
				t.Errorf("%d requests reached the endpoint", n)
			}
		})
	}
	if n := s.obs.get(func() int { return len(s.obs.refused) }); n < 8 {
		t.Errorf("only %d kinds of refusals were counted", n)
	}
}

func TestABadChunkInABodyIs400(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 100)
		for {
			if _, err := r.Body.Read(buf); err != nil {
				return
			}
		}
	}))
	answer := s.raw("POST / HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || strings.Count(answer, "HTTP/1.1") != 1 {
		t.Errorf("got\n%s", answer)
	}
}

func TestAHeadTooLargeIs431(t *testing.T) {
	s := simple(t, func(o *Options) { o.MaxHeader = 8 << 10 }, named("web"))
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "X-%d: 0123456789\r\n", i)
	}
	if answer := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\n" + b.String() + "\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 431 ") {
		t.Errorf("got\n%.200s", answer)
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	s := simple(t, nil, named("web"))
	answer := s.raw("GET /1 HTTP/1.1\r\nHost: shop.example\r\n\r\nPOST /2 HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 3\r\n\r\n\n\n\nGET /3 HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
	one, two, three := strings.Index(answer, "web /1"), strings.Index(answer, "web /2"), strings.Index(answer, "web /3")
	if one < 0 || two < one || three < two {
		t.Errorf("got\n%s", answer)
	}
}

func TestCONNECTIsNotServed(t *testing.T) {
	s := simple(t, nil, named("web"))
	if answer := s.raw("CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 405 ") {
		t.Errorf("got\n%s", answer)
	}
}
