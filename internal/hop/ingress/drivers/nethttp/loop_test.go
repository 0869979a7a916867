package nethttp

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

func TestARequestThatGoesRoundInCirclesEnds(t *testing.T) {
	var rounds atomic.Int32
	var front atomic.Pointer[url.URL]
	back := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rounds.Add(1) > 100 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		p := httputil.NewSingleHostReverseProxy(front.Load())
		p.ServeHTTP(w, r)
	})
	s := simple(t, nil, back)
	front.Store(&url.URL{Scheme: "http", Host: s.addr()})
	answer := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close, Cdn-Loop\r\nCdn-Loop: other; a=\"1\"\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 508 ") {
		t.Errorf("got\n%s", answer)
	}
	if n := rounds.Load(); n != maxPasses {
		t.Errorf("the endpoint was asked %d times, want %d", n, maxPasses)
	}
}

func TestTheMarkOfAPassIsAddedToThoseOfOthers(t *testing.T) {
	s := simple(t, nil, http.HandlerFunc(seen))
	for _, c := range []struct{ sent, want string }{
		{"", "Cdn-Loop: podway-ingress\r\n"},
		{"CDN-Loop: one\r\nCDN-Loop: two\r\n", "Cdn-Loop: one, two, podway-ingress\r\n"},
	} {
		if answer := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n" + c.sent + "\r\n"); !strings.Contains(answer, c.want) {
			t.Errorf("%q: want %q, got\n%s", c.sent, c.want, answer)
		}
	}
}
