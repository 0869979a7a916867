package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"syscall"
)

// get sends one HTTP request to Dst with the Host header and SNI of the URL; it follows no redirect. A certificate that
// does not fit is reported, not refused: the question is whether the request arrives.
func get(ctx context.Context, r Request, dial dialFunc) (Answer, error) {
	if r.HTTP == nil {
		return Answer{}, errors.New("probe: an http probe needs a request")
	}
	method := r.HTTP.Method
	if method == "" {
		method = http.MethodGet
	}
	var a Answer
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { a.Local = local(i.Conn) }}
	host := r.HTTP.Host
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, r.HTTP.Scheme+"://"+host+r.HTTP.Path, nil)
	if err != nil {
		return a, err
	}
	req.Header.Set("User-Agent", "podway-trace")
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dial(ctx, network, r.Dst.String())
		},
		TLSClientConfig:   &tls.Config{ServerName: r.HTTP.Host, InsecureSkipVerify: true}, // checked below
		DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if errors.Is(err, io.EOF) {
		err = syscall.ECONNRESET // the server closed before it answered
	}
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.Result, a.Status, a.Server = Answered, resp.StatusCode, resp.Header.Get("Server")
	if resp.TLS != nil {
		a.TLS = certificateProblem(resp.TLS, r.HTTP.Host)
	}
	return a, nil
}

// certificateProblem says why a strict client would refuse, the issuer left aside when only it is unknown: a private
// authority is usual in clusters, another host's certificate is not.
func certificateProblem(s *tls.ConnectionState, host string) string {
	if len(s.PeerCertificates) == 0 {
		return "no certificate"
	}
	leaf, roots := s.PeerCertificates[0], x509.NewCertPool()
	for _, c := range s.PeerCertificates {
		roots.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
		return err.Error()
	}
	return ""
}
