package corefile

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

const (
	mostTargets = 15
	tlsPort     = 853
)

func (r *reader) forward() {
	words, ok := r.args(r.d.whole(), 2, -1)
	if !ok {
		return
	}
	f := config.Forward{At: r.d.name.at, Plugin: r.d.name.text, MaxFails: config.DefaultMaxFails, Zone: "."}
	if zones := r.zones(words[:1]); len(zones) == 1 {
		f.Zone = zones[0]
	} else if len(zones) > 1 {
		r.bad(words[0].at, "%s is more than one reverse zone: write a line for each: %s", words[0].text, strings.Join(zones, ", "))
	}
	for _, t := range words[1:] {
		if target, ok := r.target(t); ok {
			f.To = append(f.To, target)
		}
	}
	if len(f.To) > mostTargets {
		r.bad(words[1].at, "more than %d servers", mostTargets)
	}
	r.options(r.forwardOptions(&f))
	for _, t := range f.To {
		if t.ServerName != "" && f.TLS.ServerName != "" {
			r.bad(r.d.name.at, "%s names its certificate, so tls_servername must not", t)
		}
	}
	r.b.Forwards = append(r.b.Forwards, f)
}

// target reads [dns://|tls://]ADDRESS[%NAME][:PORT] or the path of a file.
func (r *reader) target(t token) (config.Target, bool) {
	scheme, rest, ok := strings.Cut(t.text, "://")
	if !ok {
		scheme, rest = "dns", t.text
	}
	var out config.Target
	port := uint16(config.Port)
	switch scheme {
	case "dns":
	case "tls":
		out.TLS, port = true, tlsPort
	default:
		r.bad(t.at, "%s: podway asks by UDP, TCP (dns://) and TLS (tls://), not by %s", t.text, scheme)
		return out, false
	}
	if before, after, ok := strings.Cut(rest, "%"); ok && out.TLS && !strings.HasPrefix(rest, "fe80:") {
		out.ServerName, rest = after, before
		if name, p, ok := strings.Cut(after, ":"); ok {
			out.ServerName, rest = name, before+":"+p
			if strings.Count(before, ":") > 1 {
				rest = "[" + strings.Trim(before, "[]") + "]:" + p
			}
		}
	}
	if a, err := netip.ParseAddr(strings.Trim(rest, "[]")); err == nil {
		out.Addr = netip.AddrPortFrom(a, port)
		return out, true
	}
	if a, err := netip.ParseAddrPort(rest); err == nil {
		out.Addr = a
		return out, true
	}
	if strings.HasPrefix(rest, "/") && !out.TLS || strings.Contains(rest, "/") && !ok {
		out.File = r.path(t)
		return out, true
	}
	r.bad(t.at, "%q is neither an address nor a file such as /etc/resolv.conf; names of servers are not looked up", t.text)
	return out, false
}

func (r *reader) forwardOptions(f *config.Forward) map[string]func([]token) {
	return map[string]func([]token){
		"except": func(line []token) {
			if words, ok := r.args(line, 1, -1); ok {
				f.Except = append(f.Except, r.zones(words)...)
			}
		},
		"force_tcp":                        func(line []token) { _, f.ForceTCP = r.args(line, 0, 0) },
		"prefer_udp":                       func(line []token) { _, f.PreferUDP = r.args(line, 0, 0) },
		"failfast_all_unhealthy_upstreams": func(line []token) { _, f.FailFast = r.args(line, 0, 0) },
		"expire":                           func(line []token) { f.Expire = r.duration(line) },
		"max_fails":                        func(line []token) { f.MaxFails = r.number(line, 0, 1<<20) },
		"max_concurrent":                   func(line []token) { f.MaxConcurrent = r.number(line, 0, 1<<24) },
		"tls_servername":                   func(line []token) { t, _ := r.one(line); f.TLS.ServerName = t.text },
		"tls":                              func(line []token) { r.tls(f, line) },
		"policy": func(line []token) {
			t, ok := r.one(line)
			switch f.Policy = config.Policy(t.text); f.Policy {
			case config.Random, config.RoundRobin, config.Sequential:
			default:
				if ok {
					r.bad(t.at, "policy %q: want random, round_robin or sequential; without one the fastest server is asked", t.text)
				}
			}
		},
		"health_check":         func(line []token) { r.healthCheck(f, line) },
		"failover":             func(line []token) { f.Failover = append(f.Failover, r.rcodes(line)...) },
		"next":                 func(line []token) { f.Next = append(f.Next, r.rcodes(line)...) },
		"max_idle_conns":       r.pointless("connections are shared by many questions, so there are few"),
		"max_connect_attempts": r.pointless("a question takes at most 4.5 seconds, whatever is tried"),
		"max_age":              r.pointless("a connection that fails is made anew"),
		"max_queries":          r.pointless("a connection is closed when its server closes it"),
		"doh_method":           r.unlike("podway does not ask by HTTPS"),
		"resolver":             r.unlike("servers are given by address"),
		"next_on_nodata":       r.unlike("an empty answer is an answer"),
	}
}

func (r *reader) rcodes(line []token) (out []int) {
	words, _ := r.args(line, 1, -1)
	for _, t := range words {
		code := r.rcode(t)
		if code == dns.RcodeSuccess {
			r.bad(t.at, "NOERROR is an answer")
			continue
		}
		out = append(out, code)
	}
	return out
}

// tls reads tls [CERT KEY] [CA].
func (r *reader) tls(f *config.Forward, line []token) {
	words, ok := r.args(line, 0, 3)
	if !ok {
		return
	}
	switch len(words) {
	case 1:
		f.TLS.CA = r.path(words[0])
	case 3:
		f.TLS.CA = r.path(words[2])
		fallthrough
	case 2:
		f.TLS.Cert, f.TLS.Key = r.path(words[0]), r.path(words[1])
	}
}

// healthCheck reads health_check DURATION [no_rec] [domain FQDN].
func (r *reader) healthCheck(f *config.Forward, line []token) {
	words, ok := r.args(line, 1, 4)
	if !ok {
		return
	}
	f.HealthCheck.Every = r.asDuration(words[0])
	for words = words[1:]; len(words) > 0; words = words[1:] {
		switch {
		case words[0].text == "no_rec":
			f.HealthCheck.NoRecursion = true
		case words[0].text == "domain" && len(words) > 1:
			f.HealthCheck.Name = r.domain(words[1])
			words = words[1:]
		default:
			r.bad(words[0].at, "health_check: %q is not understood", words[0].text)
		}
	}
}

func isNumber(t token) bool {
	_, err := strconv.Atoi(t.text)
	return err == nil
}
