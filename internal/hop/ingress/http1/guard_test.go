package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

const host = "Host: a\r\n"

var cases = []struct {
	name  string
	bytes string
	want  *Error
}{
	{"a plain request", "GET / HTTP/1.1\r\n" + host + "\r\n", nil},
	{"an old request without host", "GET / HTTP/1.0\r\n\r\n", nil},
	{"two requests in one piece", "GET / HTTP/1.1\r\n" + host + "\r\nGET / HTTP/1.1\r\n" + host + "\r\n", nil},
	{"a body with a length", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\n\n\n\n\nGET / HTTP/1.1\r\n" + host + "\r\n", nil},
	{"chunks with extensions and trailers", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: Chunked\r\n\r\n4;a=b\r\n\n\n\n\n\r\n1;x \r\nz\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n" + host + "\r\n", nil},
	{"bytes above 0x7f in a value", "GET / HTTP/1.1\r\n" + host + "X: caf\xc3\xa9\t!\r\n\r\n", nil},
	{"an empty value", "GET / HTTP/1.1\r\n" + host + "X:\r\n\r\n", nil},

	{"a bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", ErrLineEnd},
	{"a bare LF after a header", "GET / HTTP/1.1\r\nHost: a\n\r\n", ErrLineEnd},
	{"a bare LF at the end of the head", "GET / HTTP/1.1\r\n" + host + "\n", ErrLineEnd},
	{"a bare CR in a value", "GET / HTTP/1.1\r\n" + host + "X: a\rb\r\n\r\n", ErrControl},
	{"two CR before the LF", "GET / HTTP/1.1\r\n" + host + "X: a\r\r\n\r\n", ErrControl},
	{"NUL in a value", "GET / HTTP/1.1\r\n" + host + "X: a\x00b\r\n\r\n", ErrControl},
	{"NUL in the target", "GET /\x00 HTTP/1.1\r\n" + host + "\r\n", ErrStartLine},
	{"an empty line before the request", "\r\nGET / HTTP/1.1\r\n" + host + "\r\n", ErrStartLine},
	{"no target", "GET HTTP/1.1\r\n" + host + "\r\n", ErrStartLine},
	{"two spaces", "GET  / HTTP/1.1\r\n" + host + "\r\n", ErrStartLine},
	{"a tab for a space", "GET\t/ HTTP/1.1\r\n" + host + "\r\n", ErrStartLine},
	{"a space after the version", "GET / HTTP/1.1 \r\n" + host + "\r\n", ErrStartLine},
	{"HTTP/0.9", "GET /\r\n", ErrStartLine},
	{"HTTP/1.2", "GET / HTTP/1.2\r\n" + host + "\r\n", ErrVersion},
	{"HTTP/2.0 as text", "GET / HTTP/2.0\r\n" + host + "\r\n", ErrVersion},
	{"http in lower case", "GET / http/1.1\r\n" + host + "\r\n", ErrStartLine},
	{"a folded header", "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", ErrFold},
	{"a folded first header", "GET / HTTP/1.1\r\n X: a\r\n" + host + "\r\n", ErrFold},
	{"a space before the colon", "GET / HTTP/1.1\r\n" + host + "X : a\r\n\r\n", ErrName},
	{"a header without colon", "GET / HTTP/1.1\r\n" + host + "X\r\n\r\n", ErrName},
	{"a header without name", "GET / HTTP/1.1\r\n" + host + ": x\r\n\r\n", ErrName},
	{"no host", "GET / HTTP/1.1\r\n\r\n", ErrHost},
	{"two hosts", "GET / HTTP/1.1\r\n" + host + "host: b\r\n\r\n", ErrHost},
	{"length and encoding", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrTwoLengths},
	{"encoding and length", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", ErrTwoLengths},
	{"two equal lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", ErrLength},
	{"a list of lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4, 4\r\n\r\nabcd", ErrLength},
	{"a signed length", "POST / HTTP/1.1\r\n" + host + "Content-Length: +4\r\n\r\nabcd", ErrLength},
	{"a hexadecimal length", "POST / HTTP/1.1\r\n" + host + "Content-Length: 0x4\r\n\r\nabcd", ErrLength},
	{"an endless length", "POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n", ErrLength},
	{"an empty length", "POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n\r\n", ErrLength},
	{"a length in another spelling", "POST / HTTP/1.1\r\n" + host + "Content_Length: 4\r\n\r\nabcd", ErrName},
	{"an encoding in another spelling", "POST / HTTP/1.1\r\n" + host + "Transfer_Encoding: chunked\r\n\r\n", ErrName},
	{"gzip before chunked", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", ErrEncoding},
	{"chunked twice", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", ErrEncoding},
	{"identity", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n", ErrEncoding},
	{"a vertical tab before chunked", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \vchunked\r\n\r\n", ErrControl},
	{"chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", ErrEncoding},
	{"a chunk ended by LF", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n", ErrLineEnd},
	{"a chunk longer than it says", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n", ErrChunk},
	{"a chunk size with a prefix", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n", ErrChunk},
	{"a chunk size with a space after it", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n", ErrChunk},
	{"an empty chunk size", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n\r\nx\r\n0\r\n\r\n", ErrChunk},
	{"a chunk size that overflows", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", ErrChunk},
	{"a length in a trailer", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\n", ErrTrailer},
	{"a host in a trailer", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: b\r\n\r\n", ErrTrailer},
	{"the second request is bad", "GET / HTTP/1.1\r\n" + host + "\r\nGET / HTTP/1.1\nHost: a\r\n\r\n", ErrLineEnd},
	{"HTTP/2 where it is not allowed", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ErrVersion},
}

// run shows the bytes to a Guard in pieces of a size and returns what passed.
func run(g *Guard, in string, size int) (passed string, err *Error) {
	for len(in) > 0 && err == nil {
		piece := in[:min(size, len(in))]
		in = in[len(piece):]
		var n int
		n, err = g.Check([]byte(piece))
		passed += piece[:n]
	}
	return passed, err
}

func TestGuard(t *testing.T) {
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 7, 1 << 20} {
				g := &Guard{}
				passed, got := run(g, tt.bytes, size)
				if got != tt.want {
					t.Fatalf("in pieces of %d: got %v, want %v", size, got, tt.want)
				}
				if tt.want == nil && (passed != tt.bytes || g.state != startLine) {
					t.Fatalf("in pieces of %d: passed %q, state %d", size, passed, g.state)
				}
				if tt.want != nil {
					if n, err := g.Check([]byte("GET / HTTP/1.1\r\n\r\n")); n != 0 || err == nil {
						t.Fatal("something passed after an error")
					}
				}
			}
		})
	}
}

func TestAfterThePrefaceOrAnUpgradeEverythingPasses(t *testing.T) {
	rubbish := "\x00\n\n\x16 anything\n"
	g := &Guard{AllowH2: true}
	if _, err := run(g, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+rubbish, 3); err != nil {
		t.Errorf("HTTP/2: %v", err)
	}
	g = &Guard{AllowH2: true}
	if _, err := run(g, "PRI * HTTP/2.0\r\nHost: a\r\n\r\n", 100); err != ErrPreface {
		t.Errorf("half a preface: %v", err)
	}
	g = &Guard{AllowH2: true}
	if _, err := run(g, "GET / HTTP/1.1\r\n"+host+"\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 100); err != ErrVersion {
		t.Errorf("a preface in the middle: %v", err)
	}
	g = &Guard{}
	g.Opaque()
	if _, err := run(g, rubbish, 2); err != nil {
		t.Errorf("upgraded: %v", err)
	}
}

// FuzzGuard checks that whatever passes is framed by net/http in the same way: it finds the same number of requests, and
// it does not matter in which pieces the bytes come.
func FuzzGuard(f *testing.F) {
	for _, c := range cases {
		f.Add(c.bytes)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole := &Guard{}
		passed, err := run(whole, in, 1<<20)
		single := &Guard{}
		passedSingly, err2 := run(single, in, 1)
		if (err == nil) != (err2 == nil) || whole.state != single.state || !strings.HasPrefix(passedSingly, passed) {
			t.Fatalf("pieces matter: %v %v, %q %q", err, err2, passed, passedSingly)
		}
		if err != nil || whole.state != startLine {
			return
		}
		r := bufio.NewReader(bytes.NewReader([]byte(in)))
		for {
			if _, err := r.Peek(1); err == io.EOF {
				return
			}
			req, err := http.ReadRequest(r)
			if err != nil {
				return // stricter than the Guard, or of another opinion about the target: it answers 400 and closes
			}
			if len(req.TransferEncoding) > 0 && req.Header.Get("Content-Length") != "" {
				t.Fatalf("two lengths in %q", in)
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				t.Fatalf("a body that passed cannot be read: %v in %q", err, in)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	req := []byte("GET /api/v1/users/7 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: session=0123456789abcdef0123456789abcdef\r\nX-Request-Id: 7f3a9c\r\n\r\n")
	g := &Guard{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Check(req); err != nil {
			b.Fatal(err)
		}
	}
}
