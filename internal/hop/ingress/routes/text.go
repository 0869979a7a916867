package routes

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Text is the table for people and golden files: one line a route, in order of host, then as they are tried.
func (t *Table) Text() string {
	var b strings.Builder
	for _, key := range sortedKeys(t.hosts.All()) {
		h := t.hosts.At(key)
		fmt.Fprintf(&b, "host %s\n", keyHost(key))
		for _, r := range h.routes() {
			b.WriteString("  " + t.line(r) + "\n")
		}
		for _, l := range h.losers {
			fmt.Fprintf(&b, "  %s %s of %s loses to %s\n", l.Loser.words(), l.Loser.Path, l.Loser.Ingress, l.Winner.Ingress)
		}
	}
	if t.fallback != nil {
		b.WriteString(t.line(t.fallback) + "\n")
	}
	for _, key := range sortedKeys(t.tls.All()) {
		e := t.tls.At(key)
		fmt.Fprintf(&b, "tls %s secret %s of %s", keyHost(key), e.Cert.Secret, e.Ingress)
		if e.Cert.Err != nil {
			fmt.Fprintf(&b, ": %v", e.Cert.Err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (t *Table) line(r *Route) string {
	b := t.backends.At(r.Backend)
	s := r.words()
	if r.Path != "" {
		s += " " + r.Path
	}
	s += fmt.Sprintf(" -> %s (%s", r.Backend.words(), b.State)
	if b.Draining {
		s += ", ending"
	}
	s += ")"
	for _, e := range b.Endpoints {
		s += " " + e.String()
	}
	if r.Ingress.Name != "" {
		s += " of " + r.Ingress.String()
	}
	return s
}

// words is "Exact", "Prefix" or what else the route is.
func (r *Route) words() string {
	if r.Kind == Rule {
		return string(r.Type)
	}
	return string(r.Kind)
}

func (k BackendKey) words() string {
	if k.Resource != "" {
		return "resource " + k.Resource
	}
	s := "Service " + k.Service.String()
	switch {
	case k.Port.Name != "":
		s += ":" + k.Port.Name
	case k.Port.Number != 0:
		s += fmt.Sprintf(":%d", k.Port.Number)
	}
	if k.Force != "" {
		s += " as " + string(k.Force)
	}
	return s
}

// routes are the routes of a host in the order in which they are tried: exact ones, prefixes from the longest, defaults.
func (h *hostRoutes) routes() []*Route {
	var out []*Route
	h.each(func(r *Route) { out = append(out, r) })
	return out
}

func (h *hostRoutes) each(f func(*Route)) {
	h.paths.each(f)
	for _, r := range []*Route{h.fallback, h.catchAll} {
		if r != nil {
			f(r)
		}
	}
}

func sortedKeys[V any](all iter.Seq2[string, V]) []string {
	var out []string
	all(func(k string, _ V) bool { out = append(out, k); return true })
	slices.Sort(out)
	return out
}
