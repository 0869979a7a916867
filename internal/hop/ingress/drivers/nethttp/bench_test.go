package nethttp

import (
	"bufio"
	"io"
	"net"
	"testing"
)

// BenchmarkRequest is one GET over a kept connection, client and endpoint included: both are as bare as can be.
func BenchmarkRequest(b *testing.B) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(c)
		}
	}()
	s := newSite(b, nil, service("web"), at("web", 0, addrPort(l)), rule("web", "shop.example", "/", "web"))
	c := must(net.Dial("tcp", s.addr()))
	defer c.Close()
	in := bufio.NewReader(c)
	body := make([]byte, 4)
	b.ReportAllocs()
	for b.Loop() {
		io.WriteString(c, "GET /api/v1/users/7 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
		if _, err := readHead(in); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(in, body); err != nil {
			b.Fatal(err)
		}
	}
}

func answerAll(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		if _, err := readHead(in); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ngood")
	}
}
