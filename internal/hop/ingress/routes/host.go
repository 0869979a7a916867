package routes

import (
	"net/netip"
	"strings"
)

// Host brings a Host header, :authority or SNI into the form of the table: lower case, without port and final dot. It is
// false for what can be no host; "" is a good host (HTTP/1.0).
func Host(header string) (string, bool) {
	h := header
	if strings.HasPrefix(h, "[") {
		return ipv6Host(h)
	}
	if i := strings.IndexByte(h, ':'); i >= 0 {
		if !isPort(h[i+1:]) {
			return "", false
		}
		h = h[:i]
	}
	h = strings.TrimSuffix(h, ".")
	upper := false
	for i := 0; i < len(h); i++ {
		switch c := h[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case c == '.':
			if i == 0 || h[i-1] == '.' || i == len(h)-1 {
				return "", false
			}
		case 'A' <= c && c <= 'Z':
			upper = true
		default:
			return "", false
		}
	}
	if len(h) > 253 || h == "" && header != "" {
		return "", false
	}
	if upper {
		h = strings.ToLower(h)
	}
	return h, true
}

func ipv6Host(h string) (string, bool) {
	addr, port, ok := strings.Cut(h[1:], "]")
	if !ok || port != "" && (port[0] != ':' || !isPort(port[1:])) {
		return "", false
	}
	a, err := netip.ParseAddr(addr)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return "", false
	}
	return a.String(), true
}

// isPort accepts the empty port, which RFC 3986 allows.
func isPort(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) <= 5
}

// hostKey is the table's key of a rule's host: "" = every host, ".example.com" = one label before example.com. It is
// false for what the API server would refuse.
func hostKey(rule string) (string, bool) {
	if rule == "" {
		return "", true
	}
	rest, wild := strings.CutPrefix(rule, "*.")
	h, ok := Host(rest)
	if !ok || h == "" || strings.ContainsAny(rest, ":[") {
		return "", false
	}
	if wild {
		return "." + h, true
	}
	return h, true
}

// keyHost is what a user would write for a key of the table.
func keyHost(key string) string {
	switch {
	case key == "":
		return "*"
	case key[0] == '.':
		return "*" + key
	}
	return key
}
