package corefile

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow/spelling"
	"github.com/podway/podway/internal/hop/dns/config"
)

// reader turns server blocks into settings.
type reader struct {
	o        Options
	conf     *config.Config
	problems []*Problem

	b    *config.Block
	d    directive
	root string          // prefix of relative files
	seen map[string]bool // plugins of the block
}

// bad notes a problem with the plugin at hand.
func (r *reader) bad(at config.Position, format string, args ...any) {
	r.problems = append(r.problems, &Problem{At: at, Plugin: r.d.name.text, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) note(format string, args ...any) {
	r.conf.Notes = append(r.conf.Notes, config.Note{At: r.d.name.at, Plugin: r.d.name.text, Text: fmt.Sprintf(format, args...)})
}

// block reads one server block.
func (r *reader) block(sb serverBlock) {
	r.b = &config.Block{At: sb.at}
	r.root, r.seen = "", map[string]bool{}
	for _, k := range sb.keys {
		r.d = directive{}
		r.key(k)
	}
	for _, d := range sb.inside { // other plugins' files are beside it
		if d.name.text == "root" && len(d.args) == 1 {
			r.root = d.args[0].text
		}
	}
	for _, d := range sb.inside {
		r.d = d
		r.plugin(d)
		r.seen[d.name.text] = true
	}
	r.conf.Blocks = append(r.conf.Blocks, r.b)
}

// plugin reads one plugin's settings.
func (r *reader) plugin(d directive) {
	name := d.name.text
	switch p, known := plugins[name]; {
	case !known && refused[name] != "":
		r.bad(d.name.at, "not supported: %s", refused[name])
	case !known:
		r.bad(d.name.at, "no such plugin%s", near(name, plugins))
	case p.once && r.seen[name]:
		r.bad(d.name.at, "the block has it twice")
	default:
		p.read(r)
	}
}

// near is " (did you mean X?)" for the word most like got, or "".
func near[V any](got string, known map[string]V) string {
	best, at := "", 3
	for k := range known {
		if d := spelling.Distance(got, k); d < at && d < len(k) || d == at && best != "" && k < best {
			best, at = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// options calls the function of each line in braces by its first word.
func (r *reader) options(known map[string]func(line []token)) {
	for _, line := range r.d.lines {
		if read := known[line[0].text]; read != nil {
			read(line)
			continue
		}
		r.bad(line[0].at, "no option %q%s", line[0].text, near(line[0].text, known))
	}
}

// plain reports, with a problem, whether the plugin has nothing in braces.
func (r *reader) plain() bool {
	for _, line := range r.d.lines {
		r.bad(line[0].at, "no option %q: it has none", line[0].text)
	}
	return len(r.d.lines) == 0
}

// args checks the number of words behind the first; most < 0 is any number.
func (r *reader) args(line []token, least, most int) ([]token, bool) {
	n := len(line) - 1
	switch {
	case n < least:
		r.bad(line[0].at, "%s: a word is missing behind it", line[0].text)
	case most >= 0 && n > most:
		r.bad(line[most+1].at, "%s: %q is one word too many", line[0].text, line[most+1].text)
	default:
		return line[1:], true
	}
	return nil, false
}

// whole is the directive as one line: name and arguments.
func (d directive) whole() []token { return append([]token{d.name}, d.args...) }

// one is the single word behind an option.
func (r *reader) one(line []token) (token, bool) {
	if rest, ok := r.args(line, 1, 1); ok {
		return rest[0], true
	}
	return token{}, false
}

// number is the single word behind an option as a number.
func (r *reader) number(line []token, least, most int) int {
	t, ok := r.one(line)
	if !ok {
		return least
	}
	return r.asNumber(t, least, most)
}

func (r *reader) asNumber(t token, least, most int) int {
	n, err := strconv.Atoi(t.text)
	if err != nil || n < least || n > most {
		r.bad(t.at, "%q is no number from %d to %d", t.text, least, most)
		return least
	}
	return n
}

// duration is the single word behind an option as a duration.
func (r *reader) duration(line []token) time.Duration {
	t, ok := r.one(line)
	if !ok {
		return 0
	}
	return r.asDuration(t)
}

func (r *reader) asDuration(t token) time.Duration {
	d, err := time.ParseDuration(t.text)
	if err != nil || d < 0 {
		r.bad(t.at, "%q is no duration such as 5s", t.text)
		return 0
	}
	return d
}

// domain makes a word an absolute name in lower case.
func (r *reader) domain(t token) string {
	name := dns.CanonicalName(t.text)
	if _, ok := dns.IsDomainName(name); !ok || t.text == "" || strings.ContainsAny(name, "/:{}\"") {
		r.bad(t.at, "%q is no domain name", t.text)
		return "invalid."
	}
	return name
}

// zones makes words zones; 10.0.0.0/8 is the reverse zone of the range.
func (r *reader) zones(words []token) (out []string) {
	for _, t := range words {
		if !strings.Contains(t.text, "/") {
			out = append(out, r.domain(t))
			continue
		}
		p, err := netip.ParsePrefix(t.text)
		if err != nil {
			r.bad(t.at, "%q is neither a domain name nor a range such as 10.0.0.0/8", t.text)
			continue
		}
		out = append(out, Reverse(p)...)
	}
	return out
}

// fall reads fallthrough [ZONES...].
func (r *reader) fall(line []token) config.Fall {
	return config.Fall{On: true, Zones: r.zones(line[1:])}
}

// types makes words types of records.
func (r *reader) typ(t token) uint16 {
	v, ok := dns.StringToType[strings.ToUpper(t.text)]
	if !ok {
		r.bad(t.at, "%q is no type of record", t.text)
	}
	return v
}

func (r *reader) rcode(t token) int {
	if v, ok := dns.StringToRcode[strings.ToUpper(t.text)]; ok {
		return v
	}
	if n, err := strconv.Atoi(t.text); err == nil && n >= 0 && n < 4096 {
		return n
	}
	r.bad(t.at, "%q is no response code such as NXDOMAIN", t.text)
	return 0
}

// path is the file that a word names.
func (r *reader) path(t token) string {
	if r.root == "" || strings.HasPrefix(t.text, "/") {
		return t.text
	}
	return strings.TrimSuffix(r.root, "/") + "/" + t.text
}

// add appends what a list does not have yet.
func add[T comparable](list []T, more ...T) []T {
	for _, x := range more {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}
