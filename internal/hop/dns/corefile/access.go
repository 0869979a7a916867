package corefile

import (
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/dns/config"
)

// acl reads acl [ZONES...] { ACTION [type TYPE...] [net SOURCE...] }.
func (r *reader) acl() {
	a := config.ACL{At: r.d.name.at, Zones: r.zones(r.d.args)}
	for _, line := range r.d.lines {
		rule := config.ACLRule{Action: config.Action(line[0].text)}
		if !slices.Contains([]config.Action{config.Allow, config.Deny, config.Filter, config.Drop}, rule.Action) {
			r.bad(line[0].at, "%q: want allow, block, filter or drop", line[0].text)
			continue
		}
		what := ""
		for _, t := range line[1:] {
			switch {
			case t.text == "type" || t.text == "net":
				what = t.text
			case what == "type" && t.text != "*":
				rule.Types = append(rule.Types, r.typ(t))
			case what == "net":
				rule.From = append(rule.From, r.nets(t)...)
			case what == "":
				r.bad(t.at, "%q: want type TYPE... or net ADDRESS...", t.text)
			}
		}
		a.Rules = append(a.Rules, rule)
	}
	r.b.ACL = append(r.b.ACL, a)
}

// log reads log [NAMES...] [FORMAT] { class CLASSES...; minDuration DURATION }.
func (r *reader) log() {
	l := config.Log{At: r.d.name.at}
	for _, t := range r.d.args {
		if strings.ContainsAny(t.text, "{} ") {
			r.note("a question is written with its fields, not in the format %q", t.text)
			continue
		}
		l.Zones = append(l.Zones, r.zones([]token{t})...)
	}
	r.options(map[string]func([]token){
		"class": func(line []token) {
			words, _ := r.args(line, 1, -1)
			for _, t := range words {
				if !slices.Contains([]string{"all", "success", "denial", "error"}, t.text) {
					r.bad(t.at, "class %q: want success, denial, error or all", t.text)
				}
				l.Classes = add(l.Classes, t.text)
			}
		},
		"minDuration": func(line []token) { l.MinDuration = r.duration(line) },
	})
	r.b.Log = append(r.b.Log, l)
}
