package corefile

import (
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// rewrite reads rewrite [continue|stop] FIELD ..., or the same with a rule for the answer on a second line in braces.
func (r *reader) rewrite() {
	w := config.Rewrite{At: r.d.name.at}
	words := r.d.args
	if len(words) > 0 && (words[0].text == "continue" || words[0].text == "stop") {
		w.Continue = words[0].text == "continue"
		words = words[1:]
	}
	if r.d.braces {
		if len(words) > 0 {
			r.bad(words[0].at, "%q in front of braces", words[0].text)
		}
		if len(r.d.lines) == 0 {
			r.bad(r.d.name.at, "no rule")
			return
		}
		words = r.d.lines[0]
	}
	if len(words) == 0 {
		r.bad(r.d.name.at, "no rule")
		return
	}
	w.Field = config.Field(words[0].text)
	switch w.Field {
	case config.RewriteName:
		words = r.rewriteName(&w, words)
	case config.RewriteType, config.RewriteClass:
		r.rewriteNumber(&w, words)
	case config.RewriteTTL:
		r.rewriteTTL(&w, words)
	case config.RewriteRcode:
		r.rewriteRcode(&w, words)
	case "edns0", "cname", "unset", "flag":
		r.bad(words[0].at, "%s is not supported", words[0].text)
		return
	default:
		r.bad(words[0].at, "%q: want name, type, class, ttl or rcode", words[0].text)
		return
	}
	r.answers(&w, words)
	r.b.Rewrites = append(r.b.Rewrites, w)
}

// matches are the ways to compare names, as the file spells them.
var matches = []config.Match{config.Exact, config.Prefix, config.Suffix, config.Substring, config.Regex}

// matched reads [MATCH] FROM and returns what stands behind, of which there must be least words.
func (r *reader) matched(w *config.Rewrite, words []token, least int) ([]token, bool) {
	w.Match = config.Exact
	if len(words) > 1+least+1 && slices.Contains(matches, config.Match(words[1].text)) {
		w.Match = config.Match(words[1].text)
		words = words[1:]
	}
	rest, ok := r.args(words, 1+least, -1)
	if !ok {
		return nil, false
	}
	from := rest[0]
	switch w.From = strings.ToLower(from.text); w.Match {
	case config.Exact:
		w.From = r.domain(from)
	case config.Suffix:
		w.From = dns.CanonicalName(from.text)
	case config.Regex:
		w.From = from.text
		r.regexp(from)
	}
	return rest[1:], true
}

// regexp checks that a word is a regular expression.
func (r *reader) regexp(t token) {
	if _, err := regexp.Compile(t.text); err != nil {
		r.bad(t.at, "%v", err)
	}
}

// rewriteName reads name [MATCH] FROM TO and returns what stands behind on the line.
func (r *reader) rewriteName(w *config.Rewrite, words []token) []token {
	rest, ok := r.matched(w, words, 1)
	if !ok {
		return nil
	}
	to := rest[0]
	switch w.To = strings.ToLower(to.text); w.Match {
	case config.Exact:
		w.To = r.domain(to)
	case config.Suffix:
		w.To = dns.CanonicalName(to.text)
	case config.Regex:
		w.To = to.text
	}
	return rest[1:]
}

// answers reads answer auto, answer [name|value] FROM TO, on the rule's line or below it.
func (r *reader) answers(w *config.Rewrite, rest []token) {
	lines := [][]token{}
	if w.Field == config.RewriteName && len(rest) > 0 {
		lines = append(lines, rest)
	}
	if r.d.braces {
		lines = append(lines, r.d.lines[1:]...)
	}
	for _, line := range lines {
		for len(line) > 0 {
			line = r.answer(w, line)
		}
	}
}

// answer reads one rule for the answer and returns what stands behind it.
func (r *reader) answer(w *config.Rewrite, line []token) []token {
	if w.Field != config.RewriteName {
		r.bad(line[0].at, "%q: only a name has rules for its answer", line[0].text)
		return nil
	}
	if line[0].text != "answer" || len(line) < 2 {
		r.bad(line[0].at, "%q: want answer name FROM TO, answer value FROM TO or answer auto", line[0].text)
		return nil
	}
	if line[1].text == "auto" {
		return line[2:] // names are always changed back
	}
	var a config.AnswerRewrite
	words := line[1:]
	if words[0].text == "name" || words[0].text == "value" {
		a.Value = words[0].text == "value"
		words = words[1:]
	}
	if len(words) < 2 {
		r.bad(line[0].at, "answer: want answer name FROM TO or answer value FROM TO")
		return nil
	}
	r.regexp(words[0])
	a.From, a.To = words[0].text, words[1].text
	w.Answers = append(w.Answers, a)
	return words[2:]
}

// rewriteNumber reads type FROM TO or class FROM TO.
func (r *reader) rewriteNumber(w *config.Rewrite, words []token) {
	rest, ok := r.args(words, 2, 2)
	if !ok {
		return
	}
	if w.Field == config.RewriteType {
		w.FromType, w.ToType = r.typ(rest[0]), r.typ(rest[1])
		return
	}
	w.FromClass, w.ToClass = r.class(rest[0]), r.class(rest[1])
}

func (r *reader) class(t token) uint16 {
	v, ok := dns.StringToClass[strings.ToUpper(t.text)]
	if !ok {
		r.bad(t.at, "%q is no class such as IN", t.text)
	}
	return v
}

// rewriteTTL reads ttl [MATCH] FROM SECONDS, where SECONDS is a number or a range: 30, 30-, -300, 30-300.
func (r *reader) rewriteTTL(w *config.Rewrite, words []token) {
	rest, ok := r.matched(w, words, 1)
	if !ok {
		return
	}
	const most = 1<<31 - 1
	t := rest[0]
	low, high, isRange := strings.Cut(t.text, "-")
	w.MaxTTL = most
	if low != "" {
		w.MinTTL = uint32(r.asNumber(token{text: low, at: t.at}, 0, most))
	}
	switch {
	case !isRange:
		w.MaxTTL = w.MinTTL
	case high != "":
		w.MaxTTL = uint32(r.asNumber(token{text: high, at: t.at}, 0, most))
	case low == "":
		r.bad(t.at, "%q is no number of seconds, and no range of them", t.text)
	}
	if w.MinTTL > w.MaxTTL {
		r.bad(t.at, "%q: the range is upside down", t.text)
	}
	r.end(rest[1:])
}

// rewriteRcode reads rcode [MATCH] NAME FROM TO.
func (r *reader) rewriteRcode(w *config.Rewrite, words []token) {
	rest, ok := r.matched(w, words, 2)
	if !ok {
		return
	}
	if w.FromRcode = -1; !strings.EqualFold(rest[0].text, "ANY") {
		w.FromRcode = r.rcode(rest[0])
	}
	w.ToRcode = r.rcode(rest[1])
	r.end(rest[2:])
}

// end reports words behind the last that is understood.
func (r *reader) end(rest []token) {
	if len(rest) > 0 {
		r.bad(rest[0].at, "%q is one word too many", rest[0].text)
	}
}

// template reads template CLASS TYPE [ZONE...] { ... }.
func (r *reader) template() {
	words, ok := r.args(r.d.whole(), 2, -1)
	if !ok {
		return
	}
	t := config.Template{At: r.d.name.at, Class: r.class(words[0]), Type: r.typ(words[1]), Zones: r.zones(words[2:])}
	text := func(to *[]string) func([]token) {
		return func(line []token) {
			words, _ := r.args(line, 1, -1)
			for _, w := range words {
				if _, err := template.New("").Funcs(template.FuncMap{"parseInt": func(string, int, int) (uint64, error) { return 0, nil }}).Parse(w.text); err != nil {
					r.bad(w.at, "%v", err)
				}
				*to = append(*to, w.text)
			}
		}
	}
	r.options(map[string]func([]token){
		"match": func(line []token) {
			words, _ := r.args(line, 1, -1)
			for _, w := range words {
				r.regexp(w)
				t.Match = append(t.Match, w.text)
			}
		},
		"answer": text(&t.Answer), "additional": text(&t.Additional), "authority": text(&t.Authority),
		"rcode": func(line []token) {
			if w, ok := r.one(line); ok {
				t.Rcode = r.rcode(w)
			}
		},
		"fallthrough": func(line []token) { t.Fall = r.fall(line) },
		"ederror":     r.unlike("answers carry no extended errors"),
		"upstream":    r.pointless("targets of CNAMEs are looked up by this server"),
	})
	r.b.Templates = append(r.b.Templates, t)
}
