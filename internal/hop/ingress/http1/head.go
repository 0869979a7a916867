package http1

import (
	"bytes"
	"strings"
)

// head is what a request's head says about framing.
type head struct {
	minor     byte // of HTTP/1.x
	hosts     int
	hasLength bool
	chunked   bool
	length    uint64
}

// start reads "METHOD target HTTP/1.x".
func (h *head) start(line []byte) *Error {
	method, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok || !isToken(method) {
		return ErrStartLine
	}
	target, version, ok := bytes.Cut(rest, []byte{' '})
	if !ok || len(target) == 0 || !isTarget(target) {
		return ErrStartLine
	}
	switch string(version) {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		if !bytes.HasPrefix(version, []byte("HTTP/")) || bytes.IndexByte(version, ' ') >= 0 {
			return ErrStartLine
		}
		return ErrVersion
	}
	return nil
}

// header reads "name: value".
func (h *head) header(line []byte) *Error {
	if line[0] == ' ' || line[0] == '\t' {
		return ErrFold
	}
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !isToken(name) {
		return ErrName
	}
	if !isText(value) {
		return ErrControl
	}
	value = bytes.Trim(value, " \t")
	switch framing(name) {
	case "host":
		h.hosts++
		if h.hosts > 1 {
			return ErrHost
		}
	case "content-length":
		if h.hasLength {
			return ErrLength
		}
		h.hasLength = true
		return h.setLength(value)
	case "transfer-encoding":
		if h.chunked || !strings.EqualFold(string(value), "chunked") {
			return ErrEncoding
		}
		h.chunked = true
	case "other spelling":
		return ErrName
	}
	return nil
}

func (h *head) setLength(value []byte) *Error {
	if len(value) == 0 || len(value) > 18 {
		return ErrLength
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return ErrLength
		}
		h.length = h.length*10 + uint64(c-'0')
	}
	return nil
}

// end checks what only the whole head can tell.
func (h *head) end() *Error {
	switch {
	case h.chunked && h.hasLength:
		return ErrTwoLengths
	case h.chunked && h.minor == 0:
		return ErrEncoding
	case h.minor == 1 && h.hosts != 1:
		return ErrHost
	}
	return nil
}

// trailer reads a header after the last chunk, where nothing about framing or routing may stand.
func trailer(line []byte) *Error {
	if line[0] == ' ' || line[0] == '\t' {
		return ErrFold
	}
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !isToken(name) {
		return ErrName
	}
	if !isText(value) {
		return ErrControl
	}
	if framing(name) != "" {
		return ErrTrailer
	}
	return nil
}

// framing names the headers that decide where a request goes and ends, in lower case, or "" for all others. Servers of
// the CGI kind read "Content_Length" as Content-Length; such spellings are told apart.
func framing(name []byte) string {
	for _, want := range [...]string{"host", "content-length", "transfer-encoding"} {
		if len(name) != len(want) {
			continue
		}
		same, spelled := true, true
		for i, c := range name {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			if c == want[i] {
				continue
			}
			spelled = false
			if c != '_' || want[i] != '-' {
				same = false
				break
			}
		}
		switch {
		case same && spelled:
			return want
		case same:
			return "other spelling"
		}
	}
	return ""
}

// The classes of bytes (RFC 9110, 5.5 and 5.6.2).
const (
	inToken  = 1 << iota // may stand in a method or a header name
	inText               // may stand in a header value: visible, space, tab, and all above 0x7f
	inTarget             // may stand in a request target
)

var classes = func() (t [256]byte) {
	for c := range 256 {
		if c > 0x20 && c != 0x7f {
			t[c] |= inText | inTarget
		}
	}
	t[' '] |= inText
	t['\t'] |= inText
	for _, c := range "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		t[c] |= inToken
	}
	return t
}()

func isToken(s []byte) bool  { return len(s) > 0 && all(s, inToken) }
func isText(s []byte) bool   { return all(s, inText) }
func isTarget(s []byte) bool { return all(s, inTarget) }

func all(s []byte, class byte) bool {
	for _, c := range s {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}
