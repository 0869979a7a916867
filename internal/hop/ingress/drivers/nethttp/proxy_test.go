package nethttp

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

func TestWhoAnswers(t *testing.T) {
	up := addrOf(backend(t, named("web")))
	s := newSite(t, nil, service("web"), at("web", 0, up), rule("web", "shop.example", "/app", "web"),
		rule("none", "none.example", "/", "nobody"),
		service("empty"), rule("empty", "empty.example", "/", "empty"))
	for _, tt := range []struct {
		name, url string
		status    int
		body      string
	}{
		{"the endpoint of the rule", "http://shop.example/app/x?q=1&q=%32", 200, "web /app/x?q=1&q=%32"},
		{"a path in another spelling is forwarded as it was matched", "http://shop.example/%61pp/%7euser", 200, "web /app/~user"},
		{"an encoded slash that changes nothing stays encoded", "http://shop.example/app/a%2fb", 200, "web /app/a%2Fb"},
		{"nobody: no rule for the path", "http://shop.example/other", 404, "PW-4002"},
		{"nobody: no rule for the host", "http://unknown.example/", 404, "PW-4002"},
		{"a rule without Service", "http://none.example/", 503, "PW-4003"},
		{"a rule whose Service has no endpoint", "http://empty.example/", 503, "PW-4005"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, body := s.get(tt.url); status != tt.status || !strings.Contains(body, tt.body) {
				t.Errorf("got %d %q, want %d %q", status, body, tt.status, tt.body)
			}
		})
	}
	t.Run("a Service that is scaled to zero and back is 503, then 200", func(t *testing.T) {
		s.build.Delete(at("web", 0, up))
		s.apply()
		if status, _ := s.get("http://shop.example/app"); status != 503 {
			t.Errorf("scaled to zero: %d", status)
		}
		s.put(at("web", 0, up))
		if status, _ := s.get("http://shop.example/app"); status != 200 {
			t.Errorf("scaled up: %d", status)
		}
	})
}

// seen answers with the headers of the request as it came, one a line.
func seen(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "Host: %s\n", r.Host)
	r.Header.Write(w)
}

func TestForwardedHeadersComeFromTheConnectionUnlessThePeerIsTrusted(t *testing.T) {
	spoof := http.Header{
		"X-Forwarded-For": {"6.6.6.6", "10.9.9.9"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Port": {"1"},
		"X-Real-Ip": {"6.6.6.6"}, "Forwarded": {"for=6.6.6.6"}, "X-Forwarded-Prefix": {"/x"}, "X_forwarded_for": {"6.6.6.6"}, "X-Other": {"stays"},
	}
	trust := func(cidrs ...string) func(*Options) {
		return func(o *Options) {
			for _, c := range cidrs {
				o.Trusted = append(o.Trusted, netip.MustParsePrefix(c))
			}
		}
	}
	for _, tt := range []struct {
		name       string
		opt        func(*Options)
		have, lack []string
	}{
		{"a stranger's are dropped", nil,
			[]string{"X-Forwarded-For: 127.0.0.1\r\n", "X-Real-Ip: 127.0.0.1\r\n", "X-Forwarded-Proto: http\r\n", "X-Forwarded-Host: shop.example:8080\r\n", "X-Forwarded-Port: 8080\r\n", "X-Other: stays", "Host: shop.example:8080\n"},
			[]string{"6.6.6.6", "evil", "X-Forwarded-Prefix", "Forwarded: for"}},
		{"a trusted proxy's are kept and added to", trust("127.0.0.0/8", "10.0.0.0/8"),
			[]string{"X-Forwarded-For: 6.6.6.6, 10.9.9.9, 127.0.0.1\r\n", "X-Real-Ip: 6.6.6.6\r\n", "X-Forwarded-Proto: https\r\n", "X-Forwarded-Host: evil\r\n", "X-Forwarded-Prefix: /x"}, nil},
		{"the client is the last one not trusted", trust("127.0.0.0/8"),
			[]string{"X-Real-Ip: 10.9.9.9\r\n"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := simple(t, tt.opt, http.HandlerFunc(seen))
			r := must(http.NewRequest("GET", "http://shop.example:8080/", nil))
			r.Header = spoof.Clone()
			_, body := do(t, s.client(false), r)
			for _, w := range tt.have {
				if !strings.Contains(body, w) {
					t.Errorf("lacks %q:\n%s", w, body)
				}
			}
			for _, w := range tt.lack {
				if strings.Contains(body, w) {
					t.Errorf("has %q:\n%s", w, body)
				}
			}
		})
	}
}

func TestHopByHopHeadersEndAtTheProxy(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "X-Secret")
		w.Header().Set("X-Secret", "1")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("X-Kept", "1")
		seen(w, r)
	}))
	answer := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close, X-Private, X-Forwarded-For, x-real-ip\r\nX-Private: 1\r\n" +
		"Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: gzip, trailers\r\nHTTP2-Settings: AAMA\r\nX-Public: 1\r\n\r\n")
	for _, w := range []string{"X-Public: 1", "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1", "X-Kept: 1", "Te: trailers"} {
		if !strings.Contains(answer, w) {
			t.Errorf("lacks %q:\n%s", w, answer)
		}
	}
	for _, w := range []string{"X-Private", "Keep-Alive", "Proxy-", "Http2-Settings", "X-Secret", "gzip"} {
		if strings.Contains(answer, w) {
			t.Errorf("has %q:\n%s", w, answer)
		}
	}
}

func TestNothingIsAddedThatNeitherSideSaid(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		seen(w, r)
	}))
	answer := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
	for _, w := range []string{"Content-Type", "User-Agent", "Accept-Encoding", "Connection: keep-alive"} {
		if strings.Contains(answer, w) {
			t.Errorf("has %q:\n%s", w, answer)
		}
	}
}

func TestUpgradesOtherThanWebSocketAreNotPassedOn(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(seen))
	answer := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 200") || strings.Contains(answer, "Upgrade: h2c") || strings.Contains(answer, "Settings") {
		t.Errorf("got\n%s", answer)
	}
}

func TestInterimAnswersAndTrailersPassWithoutHopByHopHeaders(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Proxy-Authenticate")
		w.Header().Set("Trailer", "X-Sum")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d bytes, trailer %q", len(body), r.Trailer.Get("X-In"))
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "43")
	}))
	var early []string
	r := must(http.NewRequest("POST", "http://shop.example/", io.MultiReader(strings.NewReader("hello"))))
	r.Trailer = http.Header{"X-In": {"41"}}
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		early = append(early, fmt.Sprint(code, h["Link"], h["Proxy-Authenticate"]))
		return nil
	}}))
	res, err := s.client(false).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if got := string(body); got != `5 bytes, trailer "41"` {
		t.Errorf("the endpoint saw %s", got)
	}
	if len(early) != 1 || early[0] != "103 [</a.css>; rel=preload] []" {
		t.Errorf("interim answers: %q", early)
	}
	if res.Trailer.Get("X-Sum") != "42" || res.Trailer.Get("X-Late") != "43" {
		t.Errorf("trailers: %v", res.Trailer)
	}
}

func TestLargeBodiesStreamBothWays(t *testing.T) {
	const size = 16 << 20
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			t.Errorf("the endpoint's read: %v", err)
		}
		w.Header().Set("X-Got", fmt.Sprintf("%d %x", n, sum.Sum(nil)))
		w.Header().Set("Content-Length", fmt.Sprint(size))
		io.Copy(w, &pattern{left: size})
	}))
	want := sha256.New()
	io.Copy(want, &pattern{left: size})
	for _, chunked := range []bool{false, true} {
		r := must(http.NewRequest("PUT", "http://shop.example/", &pattern{left: size}))
		if !chunked {
			r.ContentLength = size
		}
		res, err := s.client(false).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got := sha256.New()
		io.Copy(got, res.Body)
		res.Body.Close()
		if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
			t.Errorf("chunked %v: the answer is not what was sent", chunked)
		}
		if h := res.Header.Get("X-Got"); h != fmt.Sprintf("%d %x", size, want.Sum(nil)) {
			t.Errorf("chunked %v: the endpoint got %s", chunked, h)
		}
	}
}

// pattern is left bytes that do not repeat in any power of two.
type pattern struct{ at, left int }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), p.left)
	for i := range n {
		b[i] = byte((p.at + i) % 251)
	}
	p.at, p.left = p.at+n, p.left-n
	return n, nil
}

func TestEventsAndSlowBodiesArriveAsTheyAreSent(t *testing.T) {
	for _, tt := range []struct{ name, contentType, length string }{
		{"server-sent events", "text/event-stream", ""},
		{"unknown length", "application/json", ""},
		{"known length", "text/plain", "8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next := make(chan bool)
			s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				if tt.length != "" {
					w.Header().Set("Content-Length", tt.length)
				}
				w.WriteHeader(200)
				w.(http.Flusher).Flush()
				for range 4 {
					<-next
					io.WriteString(w, "x\n")
					w.(http.Flusher).Flush()
				}
			}))
			var res *http.Response
			var err error
			if tt.length != "" { // the head comes with the first bytes
				go func() { next <- true }()
			}
			res, err = s.client(false).Get("http://shop.example/") // returns before the first event is sent
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i := range 4 {
				if i > 0 || tt.length == "" {
					next <- true
				}
				buf := make([]byte, 2)
				if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != "x\n" {
					t.Fatalf("event %d: %q %v", i, buf, err)
				}
			}
		})
	}
}

func TestAnAnswerThatBreaksOffIsSeenToBeBroken(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	res, err := s.client(false).Get("http://shop.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%q looks whole", body)
	}
}

func TestAnEarlyAnswerReachesAClientThatIsStillSending(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}))
	c := must(net.Dial("tcp", s.addr()))
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 1000000000\r\n\r\nsome")
	buf := make([]byte, 12)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "HTTP/1.1 413" {
		t.Fatalf("got %q %v", buf, err)
	}
}

func TestExpectContinueIsTheEndpointsDecision(t *testing.T) {
	read := true
	s := simple(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if read {
			io.Copy(io.Discard, r.Body)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	ask := func() string {
		c := must(net.Dial("tcp", s.addr()))
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: shop.example\r\nExpect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n\r\n")
		buf := make([]byte, 12)
		io.ReadFull(c, buf)
		if string(buf) == "HTTP/1.1 100" {
			io.WriteString(c, "body")
			rest, _ := io.ReadAll(c)
			return string(buf) + strings.TrimPrefix(string(rest), " Continue\r\n\r\n")[:12]
		}
		return string(buf)
	}
	if got := ask(); got != "HTTP/1.1 100HTTP/1.1 200" {
		t.Errorf("an endpoint that reads: %q", got)
	}
	read = false
	if got := ask(); got != "HTTP/1.1 403" {
		t.Errorf("an endpoint that refuses: %q", got)
	}
}
