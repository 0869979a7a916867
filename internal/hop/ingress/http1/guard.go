// Package http1 is the ingress's own reading of HTTP/1.x requests, as strict as RFC 9112 allows: what two programs could
// frame differently is refused. It does no I/O, and owns neither the connection nor the meaning of a request.
package http1

import "bytes"

// Error says what rule of RFC 9110 or 9112 a client broke; there are few of them, so they may be a metric's label.
type Error struct{ Reason string }

func (e *Error) Error() string { return "http1: " + e.Reason }

// What is refused. net/http itself lets obs-fold, bare LF, CL with TE and equal duplicates pass (measured).
var (
	ErrLineEnd    = &Error{"line does not end in CRLF"}
	ErrControl    = &Error{"control character"}
	ErrLong       = &Error{"line too long"}
	ErrStartLine  = &Error{"malformed request line"}
	ErrVersion    = &Error{"version is not 1.0 or 1.1"}
	ErrName       = &Error{"malformed header name"}
	ErrFold       = &Error{"folded header"}
	ErrHost       = &Error{"no Host or more than one"}
	ErrLength     = &Error{"malformed or repeated Content-Length"}
	ErrEncoding   = &Error{"Transfer-Encoding is not chunked"}
	ErrTwoLengths = &Error{"both Content-Length and Transfer-Encoding"}
	ErrChunk      = &Error{"malformed chunk"}
	ErrTrailer    = &Error{"framing header in a trailer"}
	ErrPreface    = &Error{"malformed HTTP/2 preface"}
)

// maxLine bounds what the Guard remembers of a line that has not ended; a server's own limit on heads is below it.
const maxLine = 1 << 20

// maxChunkLine bounds the line before a chunk, extensions included.
const maxChunkLine = 4 << 10

// Guard follows the framing of the requests on one connection, whose bytes it is shown in order, and stops at the first
// one that breaks a rule. The zero Guard waits for a request line. It is not safe for concurrent use.
type Guard struct {
	// AllowH2 lets a connection begin with the HTTP/2 preface (prior knowledge); all that follows is then let through.
	AllowH2 bool

	state state
	first bool   // a line has been read: the preface can no longer come
	line  []byte // the beginning of a line that went by in an earlier piece
	head  head
	left  uint64 // bytes of a body or a chunk that still come
	err   *Error
}

type state byte

const (
	startLine state = iota
	headerLine
	fixedBody
	chunkLine
	chunkData
	chunkEnd
	trailerLine
	preface
	opaque
)

// Opaque ends the checks: the connection was upgraded.
func (g *Guard) Opaque() { g.state = opaque }

// Check reads the next bytes of the connection and returns how many may be passed on, and the first rule broken. After
// an error it passes nothing any more. No line that breaks a rule is passed with its end, so a reader behind the Guard
// cannot act on it.
func (g *Guard) Check(p []byte) (int, *Error) {
	if g.err != nil {
		return 0, g.err
	}
	for at := 0; at < len(p); {
		if g.state == opaque {
			return len(p), nil
		}
		n, err := g.step(p[at:])
		if err != nil {
			g.err = err
			return at + n, err
		}
		at += n
	}
	return len(p), nil
}

// step takes some of p: a body's bytes, or one line or the beginning of one. Of a line that breaks a rule it takes all but
// the LF.
func (g *Guard) step(p []byte) (int, *Error) {
	if g.state == fixedBody || g.state == chunkData {
		return g.skip(p), nil
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		g.line = append(g.line, p...)
		if len(g.line) > maxLine || g.state == chunkLine && len(g.line) > maxChunkLine {
			return 0, ErrLong
		}
		return len(p), nil
	}
	line := p[:end+1]
	if len(g.line) > 0 {
		g.line = append(g.line, line...)
		line = g.line
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return end, ErrLineEnd
	}
	if err := g.take(line[:len(line)-2]); err != nil {
		return end, err
	}
	g.line = g.line[:0]
	return end + 1, nil
}

func (g *Guard) skip(p []byte) int {
	n := len(p)
	if uint64(n) >= g.left {
		n = int(g.left)
		if g.state == chunkData {
			g.state = chunkEnd
		} else {
			g.state = startLine
		}
	}
	g.left -= uint64(n)
	return n
}

// take is given a whole line without its CRLF.
func (g *Guard) take(line []byte) *Error {
	switch g.state {
	case startLine:
		return g.takeStart(line)
	case headerLine:
		if len(line) > 0 {
			return g.head.header(line)
		}
		return g.endHead()
	case chunkLine:
		return g.takeChunk(line)
	case chunkEnd:
		if len(line) != 0 {
			return ErrChunk
		}
		g.state = chunkLine
	case trailerLine:
		if len(line) > 0 {
			return trailer(line)
		}
		g.state = startLine
	case preface:
		return g.takePreface(line)
	}
	return nil
}

func (g *Guard) takeStart(line []byte) *Error {
	begin := !g.first
	g.first = true
	if begin && g.AllowH2 && string(line) == "PRI * HTTP/2.0" {
		g.state, g.left = preface, 0
		return nil
	}
	g.head = head{}
	g.state = headerLine
	return g.head.start(line)
}

// takePreface expects the rest of the preface (RFC 9113, 3.4): an empty line, SM, an empty line.
func (g *Guard) takePreface(line []byte) *Error {
	want := [...]string{"", "SM", ""}
	if string(line) != want[g.left] {
		return ErrPreface
	}
	if g.left++; int(g.left) == len(want) {
		g.state = opaque
	}
	return nil
}

func (g *Guard) endHead() *Error {
	if err := g.head.end(); err != nil {
		return err
	}
	g.state = startLine
	switch {
	case g.head.chunked:
		g.state = chunkLine
	case g.head.length > 0:
		g.state, g.left = fixedBody, g.head.length
	}
	return nil
}

// takeChunk reads a chunk's size; its extensions may hold anything but control characters.
func (g *Guard) takeChunk(line []byte) *Error {
	digits := 0
	var size uint64
	for digits < len(line) {
		d := HexDigit(line[digits])
		if d > 15 {
			break
		}
		size = size<<4 | uint64(d)
		digits++
	}
	rest := line[digits:]
	if digits == 0 || digits > 15 || len(rest) > 0 && rest[0] != ';' {
		return ErrChunk
	}
	if !isText(rest) {
		return ErrControl
	}
	if size == 0 {
		g.state = trailerLine
		return nil
	}
	g.state, g.left = chunkData, size
	return nil
}

// HexDigit is the value of a hexadecimal digit, 0xff of any other byte.
func HexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
