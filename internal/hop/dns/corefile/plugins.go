package corefile

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/podway/podway/internal/hop/dns/config"
)

// plugin reads one plugin's settings; once says that a block may have it once.
type plugin struct {
	read func(*reader)
	once bool
}

// plugins are those that podway has, or that need nothing here.
var plugins map[string]plugin

func init() {
	plugins = map[string]plugin{
		"acl":         {(*reader).acl, false},
		"any":         {func(r *reader) { r.b.Any = r.bare() }, true},
		"autopath":    {(*reader).autopath, true},
		"bind":        {(*reader).bind, false},
		"bufsize":     {(*reader).bufsize, true},
		"cache":       {(*reader).cache, true},
		"cancel":      unneeded("a question is given up when its client has no use for the answer any more"),
		"debug":       unneeded("a failure of one question is confined to it; see --log-level debug"),
		"errors":      unneeded("errors are logged as they change, not one line for each question"),
		"file":        {(*reader).file, false},
		"forward":     {(*reader).forward, false},
		"health":      {(*reader).health, true},
		"hosts":       {(*reader).hosts, true},
		"kubernetes":  {(*reader).kubernetes, true},
		"loadbalance": {(*reader).loadbalance, true},
		"log":         {(*reader).log, false},
		"loop":        unneeded("servers that send our questions back to us are found by themselves and not asked"),
		"metadata":    unneeded("nothing refers to it"),
		"minimal":     {func(r *reader) { r.b.Minimal = r.bare() }, true},
		"multisocket": unneeded("there is a socket for each processor already"),
		"prometheus":  {(*reader).prometheus, true},
		"ready":       {(*reader).ready, true},
		"reload":      {(*reader).reload, true},
		"rewrite":     {(*reader).rewrite, false},
		"root":        {func(r *reader) { r.one(r.d.whole()) }, true},
		"template":    {(*reader).template, false},
		"transfer":    {(*reader).transfer, false},
		"timeouts":    unneeded("TCP connections have times of their own: 10s idle, 5s to write"),
	}
}

// refused are CoreDNS's other plugins, and what to do.
var refused = map[string]string{
	"auto":         "name the zone files with `file`",
	"azure":        "zones of a cloud are asked with `forward`",
	"chaos":        "questions of class CH are refused",
	"clouddns":     "zones of a cloud are asked with `forward`",
	"dns64":        "there is no NAT64 in podway",
	"dnssec":       "podway does not sign",
	"dnstap":       "questions are written by `log`",
	"erratic":      "it is for tests of clients",
	"etcd":         "its names are asked of their own server with `forward`",
	"geoip":        "answers do not depend on where a client is",
	"grpc":         "podway asks by UDP, TCP and TLS",
	"header":       "the flags of an answer are what they say",
	"k8s_external": "addresses of load balancers have no zone of their own yet",
	"local":        "clients answer localhost themselves (RFC 6761); use `hosts`",
	"nsid":         "servers are told apart by their address",
	"nomad":        "its names are asked of their own server with `forward`",
	"pprof":        "profiles are not served",
	"quic":         "podway serves plain DNS (UDP and TCP) only",
	"route53":      "zones of a cloud are asked with `forward`",
	"secondary":    "podway fetches no zones; ask their server with `forward`",
	"sign":         "podway does not sign",
	"tls":          "podway serves plain DNS (UDP and TCP) only",
	"trace":        "questions are written by `log`",
	"tsig":         "podway serves plain DNS (UDP and TCP) only",
	"view":         "answers do not depend on who asks; see `acl`",
	"whoami":       "it is for tests of clients",
}

// unneeded is a plugin whose work is done in any case.
func unneeded(why string) plugin {
	return plugin{read: func(r *reader) { r.note("%s", why) }}
}

// bare reports whether the plugin stands alone, as it must.
func (r *reader) bare() bool {
	_, ok := r.args(r.d.whole(), 0, 0)
	return r.plain() && ok
}

func (r *reader) bind() {
	r.options(map[string]func([]token){"except": func(line []token) {
		r.bad(line[0].at, "except: name the addresses to listen on")
	}})
	words, _ := r.args(r.d.whole(), 1, -1)
	for _, t := range words {
		a, err := netip.ParseAddr(t.text)
		if err != nil {
			r.bad(t.at, "%q is no address; the names of devices are not understood", t.text)
			continue
		}
		if !a.IsUnspecified() {
			r.b.Bind = add(r.b.Bind, a)
		}
	}
}

func (r *reader) bufsize() {
	n := 1232
	if len(r.d.args) > 0 {
		n = r.number(r.d.whole(), 512, 4096)
	}
	r.note("answers by UDP have at most 1232 bytes and at most what the client offers; %d changes nothing", n)
	r.plain()
}

func (r *reader) loadbalance() {
	words, _ := r.args(r.d.whole(), 0, -1)
	if len(words) > 0 && words[0].text != "round_robin" || len(words) > 1 {
		r.bad(words[0].at, "%q: each address is as likely as any other to come first, and nothing else is done", words[0].text)
	}
	if r.plain() {
		r.note("addresses are rotated in every answer")
	}
}

// address makes a word an address to listen on: ADDRESS:PORT, :PORT or ADDRESS.
func (r *reader) address(words []token, otherwise string) string {
	if len(words) == 0 {
		return otherwise
	}
	t := words[0]
	host, port, err := net.SplitHostPort(t.text)
	if err != nil || port == "" {
		r.bad(t.at, "%q is no address such as :8080", t.text)
		return otherwise
	}
	if host != "" && host != "localhost" {
		if _, err := netip.ParseAddr(host); err != nil {
			r.bad(t.at, "%q is no address such as :8080", t.text)
		}
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		r.bad(t.at, "%q is no port", port)
	}
	return t.text
}

func (r *reader) health() {
	words, _ := r.args(r.d.whole(), 0, 1)
	r.conf.Health = add(r.conf.Health, r.address(words, ":8080"))
	r.options(map[string]func([]token){"lameduck": func(line []token) {
		r.conf.Lameduck = max(r.conf.Lameduck, r.duration(line))
	}})
}

func (r *reader) ready() {
	words, _ := r.args(r.d.whole(), 0, 1)
	r.conf.Ready = add(r.conf.Ready, r.address(words, ":8181"))
	r.options(map[string]func([]token){"monitor": func(line []token) {
		if t, ok := r.one(line); ok && t.text != "until-ready" && t.text != "continuously" {
			r.bad(t.at, "%q: want until-ready or continuously", t.text)
		}
	}})
}

func (r *reader) prometheus() {
	words, _ := r.args(r.d.whole(), 0, 1)
	r.conf.Metrics = add(r.conf.Metrics, r.address(words, "localhost:9153"))
	r.plain()
}

// reload: a changed file is looked for every second, which is sooner than any interval that CoreDNS takes.
func (r *reader) reload() {
	words, _ := r.args(r.d.whole(), 0, 2)
	r.plain()
	if len(words) > 0 && (words[0].text == "off" || words[0].text == "0" || words[0].text == "0s") {
		r.conf.NoReload = true
		return
	}
	for _, t := range words {
		r.asDuration(t)
	}
	r.note("a changed Corefile is taken within two seconds")
}

// whole checks what concerns more than one block.
func (r *reader) whole() {
	var first *config.Block
	type place struct {
		key  config.Key
		addr netip.Addr
	}
	taken := map[place]*config.Block{}
	for _, b := range r.conf.Blocks {
		for _, k := range b.Keys {
			for _, a := range slices.Concat(b.Bind, make([]netip.Addr, 1-min(1, len(b.Bind)))) {
				if other := taken[place{k, a}]; other != nil {
					r.problems = append(r.problems, &Problem{At: b.At, Text: "zone " + k.Zone + " is served by the block at " + other.At.String() + " already"})
				}
				taken[place{k, a}] = b
			}
		}
		if b.Cluster == nil {
			continue
		}
		if first == nil {
			first = b
		}
		if c, f := b.Cluster, first.Cluster; c.Domain != f.Domain || c.Pods != f.Pods || c.TTL != f.TTL || c.NoEndpoints != f.NoEndpoints ||
			c.EndpointPodNames != f.EndpointPodNames || !slices.Equal(c.Namespaces, f.Namespaces) {
			r.problems = append(r.problems, &Problem{At: c.At, Plugin: "kubernetes",
				Text: "differs from the one at " + f.At.String() + ": one server has one cluster domain, with one ttl, pods and namespaces"})
		}
	}
}

const (
	defaultHostsTTL    = 3600
	defaultHostsReload = 5 * time.Second
	defaultFileReload  = time.Minute
)
