package corefile

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/podway/podway/internal/hop/dns/config"
)

// token is one word. Two tokens are on one line when the second begins where the first ends.
type token struct {
	text   string
	at     config.Position
	ends   int // line on which it ends; a quoted word may hold several
	quoted bool
}

// brace reports whether the token is an unquoted { or }.
func (t token) brace(b string) bool { return !t.quoted && t.text == b }

// sameLine reports whether next stands on the line on which t ends.
func (t token) sameLine(next token) bool {
	return t.at.File == next.at.File && t.ends == next.at.Line
}

// lex splits text into words: separated by white space, a # at the start of one begins a comment, "..." holds white space
// with \" for a quotation mark. Environment variables are put in afterwards, so that a value is always one word.
func lex(file string, text []byte, env func(string) (string, bool)) ([]token, *Problem) {
	var out []token
	line := 1
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n':
			line++
			i += size
		case unicode.IsSpace(r) || r == '\ufeff' && i == 0:
			i += size
		case r == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		default:
			t := token{at: config.Position{File: file, Line: line}}
			var closed bool
			if t.quoted = r == '"'; t.quoted {
				t.text, i, line, closed = quoted(text, i+1, line)
			} else {
				t.text, i = word(text, i)
				closed = true
			}
			if !closed {
				return out, &Problem{At: t.at, Text: `a word in quotation marks does not end: a " is missing`}
			}
			t.ends = line
			if t.text = expand(t.text, env); t.text != "" || t.quoted {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// word reads up to the next white space.
func word(text []byte, at int) (string, int) {
	end := at
	for end < len(text) {
		r, size := utf8.DecodeRune(text[end:])
		if unicode.IsSpace(r) {
			break
		}
		end += size
	}
	return string(text[at:end]), end
}

// quoted reads up to the closing quotation mark; a backslash is one unless it stands before such a mark.
func quoted(text []byte, at, line int) (string, int, int, bool) {
	var b strings.Builder
	for at < len(text) {
		c := text[at]
		switch {
		case c == '"':
			return b.String(), at + 1, line, true
		case c == '\\' && at+1 < len(text) && text[at+1] == '"':
			at++
			c = '"'
		case c == '\n':
			line++
		}
		b.WriteByte(c)
		at++
	}
	return "", at, line, false
}

// expand puts the values of {$NAME} and {%NAME%} in; a name that is not set is empty. Values are not expanded again.
func expand(s string, env func(string) (string, bool)) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '{')
		if open < 0 || open+1 == len(s) {
			break
		}
		end := ""
		switch s[open+1] {
		case '$':
			end = "}"
		case '%':
			end = "%}"
		}
		size := strings.Index(s[open+2:], end)
		if end == "" || size <= 0 || strings.ContainsAny(s[open+2:open+2+size], "{} \t\n") {
			b.WriteString(s[:open+1])
			s = s[open+1:]
			continue
		}
		value, _ := env(s[open+2 : open+2+size])
		b.WriteString(s[:open])
		b.WriteString(value)
		s = s[open+2+size+len(end):]
	}
	b.WriteString(s)
	return b.String()
}
