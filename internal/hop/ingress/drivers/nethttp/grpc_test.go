package nethttp

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// resets is an HTTP/2 endpoint without TLS that resets every stream, after head and first bytes if begun.
func resets(t *testing.T, begun bool, after time.Duration, code http2.ErrCode) net.Listener {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go resetStreams(c, begun, after, code)
		}
	}()
	return l
}

func resetStreams(c net.Conn, begun bool, after time.Duration, code http2.ErrCode) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	fr := http2.NewFramer(c, c)
	fr.WriteSettings()
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				fr.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			if begun {
				var head bytes.Buffer
				enc := hpack.NewEncoder(&head)
				enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
				enc.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: head.Bytes(), EndHeaders: true})
				fr.WriteData(f.StreamID, false, []byte("first"))
			}
			time.Sleep(after)
			fr.WriteRSTStream(f.StreamID, code)
		}
	}
}

func TestAResetCallEndsWithItsStatus(t *testing.T) {
	const soon = 20 * time.Millisecond
	for _, tt := range []struct {
		name    string
		begun   bool
		timeout string
		code    http2.ErrCode
		want    string
	}{
		{"cancelled before the answer", false, "", http2.ErrCodeCancel, "1"},
		{"cancelled in the answer", true, "", http2.ErrCodeCancel, "1"},
		{"the deadline before the answer", false, "10m", http2.ErrCodeCancel, "4"},
		{"the deadline in the answer", true, "10m", http2.ErrCodeCancel, "4"},
		{"a deadline far away", true, "99999999H", http2.ErrCodeCancel, "1"},
		{"no deadline at all", true, "soon", http2.ErrCodeCancel, "1"},
		{"refused in the answer", true, "", http2.ErrCodeRefusedStream, "14"},
		{"too much", true, "", http2.ErrCodeEnhanceYourCalm, "8"},
		{"not secure enough", true, "", http2.ErrCodeInadequateSecurity, "7"},
		{"broken", false, "", http2.ErrCodeInternal, "13"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := service("web")
			svc.Ports[0].AppProtocol = "kubernetes.io/h2c"
			s := newSite(t, nil, svc, at("web", 0, addrPort(resets(t, tt.begun, soon, tt.code))), rule("web", "shop.example", "/", "web"))
			res := call(t, s, "application/grpc", tt.timeout)
			defer res.Body.Close()
			read, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != 200 || tt.begun != (string(read) == "first") {
				t.Fatalf("status %d, body %q, %v", res.StatusCode, read, err)
			}
			got := res.Trailer.Get("Grpc-Status")
			if !tt.begun {
				got = res.Header.Get("Grpc-Status")
			}
			if got != tt.want {
				t.Errorf("grpc-status %q, want %s", got, tt.want)
			}
		})
	}
}

// What is no gRPC call has no place for a status: a broken answer must look broken.
func TestAResetOfOtherRequestsIsSeen(t *testing.T) {
	svc := service("web")
	svc.Ports[0].AppProtocol = "kubernetes.io/h2c"
	s := newSite(t, nil, svc, at("web", 0, addrPort(resets(t, true, 0, http2.ErrCodeCancel))), rule("web", "shop.example", "/", "web"))
	res := call(t, s, "text/plain", "")
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the answer looks whole")
	}
}

// call is one POST over HTTP/2 without TLS.
func call(t *testing.T, s *site, contentType, timeout string) *http.Response {
	tr := &http2.Transport{AllowHTTP: true, DialTLS: func(string, string, *tls.Config) (net.Conn, error) { return net.Dial("tcp", s.addr()) }}
	t.Cleanup(tr.CloseIdleConnections)
	r := must(http.NewRequest("POST", "http://shop.example/pkg.Service/Method", bytes.NewReader([]byte("question"))))
	r.Header.Set("Content-Type", contentType)
	if timeout != "" {
		r.Header.Set("Grpc-Timeout", timeout)
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
