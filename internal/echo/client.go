package echo

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// httpFlags are those of every HTTP client.
type httpFlags struct {
	headers  list
	resolve  list
	insecure bool
	fresh    bool
	h2       bool
	method   string
	data     string
	timeout  time.Duration
}

func (f *httpFlags) add(fs *flag.FlagSet) {
	fs.Var(&f.headers, "H", "header `Name: value`; may be repeated")
	fs.Var(&f.resolve, "resolve", "`HOST=ADDRESS` to use in place of DNS; may be repeated")
	fs.BoolVar(&f.insecure, "k", false, "do not check the server's certificate")
	fs.BoolVar(&f.fresh, "new", false, "a new connection for each request")
	fs.BoolVar(&f.h2, "http2", false, "HTTP/2 only; without TLS by prior knowledge")
	fs.StringVar(&f.method, "X", "", "method (default GET, with -d POST)")
	fs.StringVar(&f.data, "d", "", "body")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Second, "for one request")
}

// client makes the HTTP client.
func (f *httpFlags) client() (*http.Client, error) {
	at, err := resolving(f.resolve)
	if err != nil {
		return nil, err
	}
	d := &net.Dialer{Timeout: f.timeout}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return d.DialContext(ctx, network, at(addr))
		},
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: f.insecure},
		DisableKeepAlives:   f.fresh,
		MaxIdleConnsPerHost: 1000,
		ForceAttemptHTTP2:   true,
	}
	if f.h2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Client{Transport: t, Timeout: f.timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// resolving makes the function that puts the addresses of -resolve in the place of host names in HOST:PORT.
func resolving(flags []string) (func(addr string) string, error) {
	hosts := map[string]string{}
	for _, r := range flags {
		host, addr, ok := strings.Cut(r, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("-resolve %q: want HOST=ADDRESS", r)}
		}
		hosts[strings.ToLower(host)] = strings.Trim(addr, "[]")
	}
	return func(addr string) string {
		host, port, err := net.SplitHostPort(addr)
		if to := hosts[strings.ToLower(host)]; err == nil && to != "" {
			return net.JoinHostPort(to, port)
		}
		return addr
	}, nil
}

// request makes one request.
func (f *httpFlags) request(ctx context.Context, url string) (*http.Request, error) {
	method := f.method
	if method == "" {
		if method = "GET"; f.data != "" {
			method = "POST"
		}
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(f.data))
	if err != nil {
		return nil, usageError{err}
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, usageError{fmt.Errorf("-H %q: want Name: value", h)}
		}
		if value = strings.TrimSpace(value); strings.EqualFold(name, "Host") {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	return r, nil
}
