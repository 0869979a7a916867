package corefile

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/podway/podway/internal/hop/dns/config"
)

// Limits of what imports may bring, so that snippets that import each other end.
const (
	mostDepth  = 20
	mostTokens = 1 << 20
)

// serverBlock is a server block as it is written.
type serverBlock struct {
	at     config.Position
	keys   []token
	inside []directive
}

// directive is one line of a block with what it has in braces.
type directive struct {
	name   token
	args   []token
	braces bool
	lines  [][]token
}

// parser turns words into blocks.
type parser struct {
	o Options

	at       int // words imported so far
	snippets map[string][]token
	problems []*Problem
}

func parse(name string, text []byte, o Options) ([]serverBlock, []*Problem) {
	tokens, problem := lex(name, text, o.Env)
	if problem != nil {
		return nil, []*Problem{problem}
	}
	p := &parser{o: o, snippets: map[string][]token{}}
	out := p.file(tokens, 0)
	if len(p.problems) == 0 && len(out) == 0 {
		p.problem(config.Position{File: name, Line: 1}, "no server block: nothing would be served")
	}
	return out, p.problems
}

func (p *parser) problem(at config.Position, format string, args ...any) {
	p.problems = append(p.problems, &Problem{At: at, Text: fmt.Sprintf(format, args...)})
}

// file reads blocks, snippets and imports up to the end of the words.
func (p *parser) file(in []token, depth int) (out []serverBlock) {
	for len(in) > 0 {
		if first := in[0]; !first.quoted && first.text == "import" {
			n := lineLength(in)
			out = append(out, p.file(p.imported(in[:n], depth), depth+1)...)
			in = in[n:]
			continue
		}
		head, body, rest, ok := p.braced(in)
		if !ok {
			return out
		}
		first := head[0]
		switch {
		case isSnippet(first.text) && len(head) == 1:
			name := first.text[1 : len(first.text)-1]
			if _, twice := p.snippets[name]; twice {
				p.problem(first.at, "the snippet %s is there twice", first.text)
			}
			p.snippets[name] = body
		default:
			out = append(out, serverBlock{at: first.at, keys: keys(head), inside: p.directives(body, depth)})
		}
		in = rest
	}
	return out
}

func isSnippet(s string) bool { return len(s) > 2 && s[0] == '(' && s[len(s)-1] == ')' }

// keys splits at commas: "a, b" and "a b" are the same.
func keys(head []token) (out []token) {
	for _, t := range head {
		for _, part := range strings.Split(t.text, ",") {
			if part != "" {
				t.text = part
				out = append(out, t)
			}
		}
	}
	return out
}

// lineLength counts the words on the line of the first.
func lineLength(in []token) int {
	n := 1
	for n < len(in) && in[n-1].sameLine(in[n]) {
		n++
	}
	return n
}

// braced splits words into what stands before {, what stands up to its }, and the rest. What has no braces is a problem,
// and the head then is all there is.
func (p *parser) braced(in []token) (head, body, rest []token, ok bool) {
	open := 0
	for open < len(in) && !in[open].brace("{") {
		if in[open].brace("}") {
			p.problem(in[open].at, "a } without its {")
			return in[:1], nil, nil, false
		}
		open++
	}
	if open == len(in) {
		p.problem(in[0].at, "the server block %s has no { }", in[0].text)
		return in, nil, nil, false
	}
	if open == 0 {
		p.problem(in[0].at, "a { without a zone in front of it")
		return in[:1], nil, nil, false
	}
	depth := 0
	for i := open; i < len(in); i++ {
		switch {
		case in[i].brace("{"):
			depth++
		case in[i].brace("}"):
			if depth--; depth == 0 {
				return in[:open], in[open+1 : i], in[i+1:], true
			}
		}
	}
	p.problem(in[open].at, "a { without its }")
	return in[:open], nil, nil, false
}

// directives reads the lines of a block.
func (p *parser) directives(in []token, depth int) (out []directive) {
	for len(in) > 0 {
		n := lineLength(in)
		line := in[:n]
		if line[0].text == "import" && !line[0].quoted {
			in = in[n:]
			out = append(out, p.directives(p.imported(line, depth), depth+1)...)
			continue
		}
		d := directive{name: line[0]}
		end := 1
		for end < n && !line[end].brace("{") && !line[end].brace("}") {
			end++
		}
		d.args = line[1:end]
		in = in[end:]
		if d.name.brace("{") || d.name.brace("}") {
			p.problem(d.name.at, "a %s in the wrong place", d.name.text)
			return out
		}
		if len(in) > 0 && end < n && in[0].brace("{") {
			d.braces = true
			var closed bool
			if d.lines, in, closed = p.lines(in[1:], depth); !closed {
				p.problem(d.name.at, "the { of %s has no }", d.name.text)
			}
		}
		out = append(out, d)
	}
	return out
}

// lines reads what a directive has in braces, up to and with the }.
func (p *parser) lines(in []token, depth int) (out [][]token, rest []token, closed bool) {
	for len(in) > 0 {
		if in[0].brace("}") {
			return out, in[1:], true
		}
		n := lineLength(in)
		end := 0
		for end < n && !in[end].brace("}") {
			if in[end].brace("{") {
				p.problem(in[end].at, "braces within the braces of a plugin")
				return out, nil, true
			}
			end++
		}
		line := in[:end]
		in = in[end:]
		if line[0].text != "import" || line[0].quoted {
			out = append(out, line)
			continue
		}
		more, _, ended := p.lines(p.imported(line, depth), depth+1)
		if ended {
			p.problem(line[0].at, "what is imported has a } without its {")
		}
		out = append(out, more...)
	}
	return out, nil, false
}

// imported are the words of a snippet or of files.
func (p *parser) imported(line []token, depth int) []token {
	at := line[0].at
	if len(line) != 2 {
		p.problem(at, "import wants one snippet or file")
		return nil
	}
	if depth >= mostDepth {
		p.problem(at, "imports are nested more than %d deep: do they import each other?", mostDepth)
		return nil
	}
	name := line[1].text
	words, ok := p.snippets[name]
	if !ok {
		words, ok = p.files(at, name)
	}
	if p.at += len(words); p.at > mostTokens {
		if ok {
			p.problem(at, "imports bring more than %d words: do they import each other?", mostTokens)
		}
		return nil
	}
	return words
}

// files reads the files of an import; a relative name is one beside the file that imports.
func (p *parser) files(at config.Position, name string) (out []token, ok bool) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(at.File), path)
	}
	paths := []string{path}
	if strings.ContainsAny(path, "*?[") {
		var err error
		if paths, err = p.o.Glob(path); err != nil {
			p.problem(at, "import %s: %v", name, err)
			return nil, false
		}
	}
	for _, f := range paths {
		text, err := p.o.ReadFile(f)
		if err != nil {
			p.problem(at, "import %s: there is no snippet of this name above, and no such file: %v", name, err)
			return nil, false
		}
		words, problem := lex(f, text, p.o.Env)
		if problem != nil {
			p.problems = append(p.problems, problem)
			return nil, false
		}
		out = append(out, words...)
	}
	return out, true
}
