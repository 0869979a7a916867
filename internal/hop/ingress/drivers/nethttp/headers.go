package nethttp

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// hopByHop are the headers that concern one connection (RFC 9110, 7.6.1, and what the field knows besides).
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Http2-Settings": true,
}

// endToEnd copies the headers that are for the other end: all but hop-by-hop ones and those that Connection names. What
// is added must be added after it, or a client could have it removed.
func endToEnd(in http.Header, room int) http.Header {
	out := make(http.Header, len(in)+room)
	for k, v := range in {
		if !hopByHop[k] {
			out[k] = v
		}
	}
	for _, line := range in["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.Trim(name, " \t")))
		}
	}
	return out
}

// hasToken looks for a token in a comma-separated header, in any case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(t, " \t"), token) {
				return true
			}
		}
	}
	return false
}

// wantsWebSocket reports whether a request asks for the one upgrade that is passed on. Others, h2c above all, would let a
// client speak to the endpoint past the proxy.
func wantsWebSocket(r *http.Request) bool {
	up := r.Header["Upgrade"]
	return r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.Method == http.MethodGet && len(up) == 1 &&
		strings.EqualFold(up[0], "websocket") && hasToken(r.Header["Connection"], "upgrade")
}

// forwarded writes the X-Forwarded headers. Those that the client sent are dropped unless the client is a proxy that is
// trusted; X-Real-Ip is the last address in the chain that is not.
func (s *Server) forwarded(h http.Header, r *http.Request) {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	client := peer.Addr().Unmap().WithZone("")
	if !s.trusts(client) {
		dropForwarded(h)
		h["X-Forwarded-For"] = []string{client.String()}
		h["X-Real-Ip"] = h["X-Forwarded-For"]
		setOrigin(h, r)
		return
	}
	chain := client.String()
	if old := h["X-Forwarded-For"]; len(old) > 0 {
		chain = strings.Join(old, ", ") + ", " + chain
	}
	h["X-Forwarded-For"] = []string{chain}
	h["X-Real-Ip"] = []string{s.realClient(chain)}
	setOrigin(h, r)
}

// setOrigin fills in what the client asked for, where a trusted proxy has not said it already.
func setOrigin(h http.Header, r *http.Request) {
	scheme, port := "http", "80"
	if r.TLS != nil {
		scheme, port = "https", "443"
	}
	if i := strings.LastIndexByte(r.Host, ':'); i >= 0 && i > strings.LastIndexByte(r.Host, ']') && i+1 < len(r.Host) {
		port = r.Host[i+1:]
	}
	for _, f := range [...]struct{ name, value string }{
		{"X-Forwarded-Proto", scheme}, {"X-Forwarded-Host", r.Host}, {"X-Forwarded-Port", port},
	} {
		if len(h[f.name]) == 0 {
			h[f.name] = []string{f.value}
		}
	}
}

// dropForwarded removes what only a proxy may say, also where it is spelled with underscores: servers of the CGI kind
// cannot tell X_Forwarded_For from X-Forwarded-For.
func dropForwarded(h http.Header) {
	for k := range h {
		name := k
		if strings.IndexByte(k, '_') >= 0 {
			name = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(k, "_", "-"))
		}
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "X-Real-Ip" || name == "X-Scheme" {
			delete(h, k)
		}
	}
}

func (s *Server) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(s.opt.Trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// realClient reads a chain from the right, past the proxies that are trusted.
func (s *Server) realClient(chain string) string {
	last := ""
	for rest := chain; rest != ""; {
		i := strings.LastIndexByte(rest, ',')
		item := strings.Trim(rest[i+1:], " \t")
		a, err := netip.ParseAddr(item)
		if err != nil {
			break
		}
		last = a.Unmap().String()
		if !s.trusts(a.Unmap()) || i < 0 {
			break
		}
		rest = rest[:i]
	}
	return last
}
