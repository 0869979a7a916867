package routes

import (
	"errors"
	"strings"

	"github.com/podway/podway/internal/hop/ingress/http1"
)

// The reasons to refuse a path with 400: two programs that read it might not mean the same.
var (
	ErrPath      = errors.New("the path is no valid path")
	ErrDots      = errors.New("the path has . or .. as an element")
	ErrAmbiguous = errors.New("the path names different rules, depending on how its slashes are read")
)

// Canonical returns the one form of a path by which it is matched and in which it is forwarded: unreserved characters
// (RFC 3986, 2.3) are plain, all others that need it are %XX in upper case. Control characters, backslashes and elements
// . and .. are refused however they are encoded. An encoded slash stays encoded and empty elements stay: such a path has
// other readings, which slashes tells; see Table.Resolve.
func Canonical(raw string) (path string, slashes bool, err error) {
	if raw == "" || raw[0] != '/' {
		return "", false, ErrPath
	}
	if isPlain(raw) {
		return raw, false, nil
	}
	path, err = reencode(raw)
	if err != nil {
		return "", false, err
	}
	slashes = strings.Contains(path, "//") || strings.Contains(path, "%2F")
	if strings.IndexByte(path, '.') >= 0 && hasDots(path) {
		return "", false, ErrDots
	}
	return path, slashes, nil
}

// isPlain reports whether the path is canonical and has one reading, without having looked at it closely.
func isPlain(p string) bool {
	for i := 0; i < len(p); i++ {
		switch class[p[i]] {
		case plain:
		case slash:
			if i+1 < len(p) && (p[i+1] == '/' || p[i+1] == '.') {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// The classes of a byte in a path.
const (
	illegal byte = iota
	plain        // unreserved, sub-delims, ":" and "@"
	slash
	percent
	encode // must be written as %XX
)

var class = func() (t [256]byte) {
	for c := 0x21; c < 256; c++ {
		t[c] = encode
	}
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@" {
		t[c] = plain
	}
	t['/'], t['%'] = slash, percent
	t['\\'], t['?'], t['#'], t[0x7f] = illegal, illegal, illegal, illegal
	return t
}()

const upperHex = "0123456789ABCDEF"

func reencode(raw string) (string, error) {
	var b strings.Builder
	b.Grow(len(raw) + 16)
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch class[c] {
		case plain, slash:
			b.WriteByte(c)
			continue
		case illegal:
			return "", ErrPath
		case percent:
			if i+2 >= len(raw) {
				return "", ErrPath
			}
			hi, lo := http1.HexDigit(raw[i+1]), http1.HexDigit(raw[i+2])
			if hi > 15 || lo > 15 {
				return "", ErrPath
			}
			i += 2
			c = hi<<4 | lo
			if c < 0x20 || c == 0x7f || c == '\\' {
				return "", ErrPath
			}
			if unreserved(c) {
				b.WriteByte(c)
				continue
			}
		}
		b.WriteByte('%')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
	return b.String(), nil
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// hasDots looks for . and .. between slashes, plain or encoded. What follows a semicolon counts as a parameter of the
// element, as servlet containers have it: "..;v=1" is "..".
func hasDots(path string) bool {
	for rest := path; ; {
		i := strings.IndexAny(rest, "/%;")
		element, next := rest, ""
		if i >= 0 {
			element, next = rest[:i], rest[i:]
		}
		if element == "." || element == ".." {
			if next == "" || next[0] != '%' || isEncoded(next, "2F") || isEncoded(next, "3B") {
				return true
			}
		}
		if i < 0 {
			return false
		}
		rest = afterSeparator(next)
	}
}

func isEncoded(s, hex string) bool { return strings.HasPrefix(s[1:], hex) }

// afterSeparator goes on after the next slash, plain or encoded.
func afterSeparator(s string) string {
	plainAt, encodedAt := strings.IndexByte(s, '/'), strings.Index(s, "%2F")
	switch {
	case plainAt < 0 && encodedAt < 0:
		return ""
	case encodedAt < 0 || plainAt >= 0 && plainAt < encodedAt:
		return s[plainAt+1:]
	}
	return s[encodedAt+3:]
}

// readings are the paths that a server may take a canonical path for: with %2F as a slash, with runs of slashes as one,
// and with both.
func readings(path string) [3]string {
	decoded := strings.ReplaceAll(path, "%2F", "/")
	return [3]string{decoded, mergeSlashes(path), mergeSlashes(decoded)}
}

func mergeSlashes(p string) string {
	if !strings.Contains(p, "//") {
		return p
	}
	b := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] == '/' && len(b) > 0 && b[len(b)-1] == '/' {
			continue
		}
		b = append(b, p[i])
	}
	return string(b)
}
