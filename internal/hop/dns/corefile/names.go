package corefile

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/hop/dns/config"
)

// mostTTL is the longest time to live that CoreDNS takes for records of the cluster, in seconds.
const mostTTL = 3600

func (r *reader) kubernetes() {
	c := &config.Cluster{At: r.d.name.at, Pods: config.PodsDisabled, TTL: 5}
	zones := r.b.Zones()
	if len(r.d.args) > 0 {
		zones = r.zones(r.d.args)
	}
	r.options(map[string]func([]token){
		"pods":               func(line []token) { c.Pods = r.pods(line) },
		"ttl":                func(line []token) { c.TTL = uint32(max(1, r.number(line, 0, mostTTL))) },
		"fallthrough":        func(line []token) { c.Fall = r.fall(line) },
		"namespaces":         func(line []token) { c.Namespaces = r.words(line) },
		"noendpoints":        func(line []token) { _, c.NoEndpoints = r.args(line, 0, 0) },
		"endpoint_pod_names": func(line []token) { _, c.EndpointPodNames = r.args(line, 0, 0) },
		"ignore":             r.ignoreEmpty(c),
		"resyncperiod":       r.pointless("the watch is checked by itself"),
		"upstream":           r.pointless("targets of ExternalName Services are looked up by this server"),
		"startup_timeout":    r.pointless("names of the cluster fail until it is known, others are answered at once"),
		"endpoint":           r.elsewhere, "tls": r.elsewhere, "kubeconfig": r.elsewhere,
		"apiserver_qps": r.pointless("the client's rates are podway's own"), "apiserver_burst": r.pointless("the client's rates are podway's own"),
		"apiserver_max_inflight": r.pointless("the client's rates are podway's own"),
		"labels":                 r.unlike("Services are not chosen by labels; use namespaces"),
		"namespace_labels":       r.unlike("namespaces are not chosen by labels; name them with namespaces"),
		"multicluster":           r.unlike("names of other clusters are not served from a Corefile"),
		"transfer":               r.unlike("use the plugin transfer"),
		"noservices":             r.unlike("there would be nothing left"),
	})
	r.clusterZones(c, zones)
	r.b.Cluster = c
}

// clusterZones sorts a plugin's zones into the cluster's domain and reverse ranges.
func (r *reader) clusterZones(c *config.Cluster, zones []string) {
	for _, z := range zones {
		if p, ok := ReversePrefix(z); ok {
			c.Reverse = append(c.Reverse, p)
			continue
		}
		switch {
		case z == ".":
			if c.Domain = r.o.Domain; c.Domain == "" {
				r.bad(c.At, "the root is no cluster domain: write `kubernetes cluster.local in-addr.arpa ip6.arpa`")
			}
		case c.Domain != "" && c.Domain != z:
			r.bad(c.At, "%s and %s: one server has one cluster domain", c.Domain, z)
		default:
			c.Domain = z
		}
	}
	if c.Domain == "" {
		if c.Domain = r.o.Domain; c.Domain == "" {
			r.bad(c.At, "none of the zones is a cluster domain such as cluster.local")
		}
	}
}

func (r *reader) pods(line []token) config.Pods {
	t, ok := r.one(line)
	mode := config.Pods(t.text)
	if ok && !slices.Contains([]config.Pods{config.PodsDisabled, config.PodsInsecure, config.PodsVerified}, mode) {
		r.bad(t.at, "pods %q: want disabled, insecure or verified", t.text)
	}
	return mode
}

func (r *reader) words(line []token) (out []string) {
	rest, _ := r.args(line, 1, -1)
	for _, t := range rest {
		out = append(out, t.text)
	}
	return out
}

func (r *reader) ignoreEmpty(*config.Cluster) func([]token) {
	return func(line []token) {
		if t, ok := r.one(line); ok && (t.text == "empty_service" || t.text == "emptyservice") {
			r.bad(t.at, "a Service with a ClusterIP has its name whether or not it has an endpoint")
		} else if ok {
			r.bad(t.at, "ignore %q is unknown", t.text)
		}
	}
}

// pointless is an option that needs nothing here.
func (r *reader) pointless(why string) func([]token) {
	return func(line []token) {
		r.conf.Notes = append(r.conf.Notes, config.Note{At: line[0].at, Plugin: r.d.name.text, Text: line[0].text + ": " + why})
	}
}

// unlike is an option that podway does not have.
func (r *reader) unlike(why string) func([]token) {
	return func(line []token) { r.bad(line[0].at, "%s is not supported: %s", line[0].text, why) }
}

// elsewhere is an option that says how to reach the API server.
func (r *reader) elsewhere(line []token) {
	r.bad(line[0].at, "%s is not supported: how to reach the API server is said by --kubeconfig or --apiserver", line[0].text)
}

func (r *reader) hosts() {
	h := &config.Hosts{At: r.d.name.at, File: "/etc/hosts", TTL: defaultHostsTTL, Reload: defaultHostsReload}
	if len(r.d.args) > 0 {
		h.File = r.path(r.d.args[0])
		h.Zones = r.zones(r.d.args[1:])
	}
	for _, line := range r.d.lines {
		switch line[0].text {
		case "fallthrough":
			h.Fall = r.fall(line)
		case "no_reverse":
			_, h.NoReverse = r.args(line, 0, 0)
		case "ttl":
			h.TTL = uint32(r.number(line, 0, 1<<31-1))
		case "reload":
			h.Reload = r.duration(line)
		default:
			r.hostLine(h, line)
		}
	}
	r.b.Hosts = h
}

func (r *reader) hostLine(h *config.Hosts, line []token) {
	a, err := netip.ParseAddr(line[0].text)
	if err != nil {
		r.bad(line[0].at, "%q is neither an address nor an option", line[0].text)
		return
	}
	names, ok := r.args(line, 1, -1)
	if !ok {
		return
	}
	l := config.HostLine{Addr: a.Unmap().WithZone("")}
	for _, t := range names {
		l.Names = append(l.Names, r.domain(t))
	}
	h.Inline = append(h.Inline, l)
}

func (r *reader) file() {
	words, ok := r.args(r.d.whole(), 1, -1)
	if !ok {
		return
	}
	f := config.File{At: r.d.name.at, Path: r.path(words[0]), Zones: r.zones(words[1:]), Reload: defaultFileReload}
	r.options(map[string]func([]token){
		"reload":   func(line []token) { f.Reload = r.duration(line) },
		"upstream": r.pointless("targets of CNAMEs are looked up by this server"),
		"transfer": r.unlike("use the plugin transfer"),
	})
	r.b.Files = append(r.b.Files, f)
}

// autopath only saves the client steps of its search list, and those are answered here without asking anybody.
func (r *reader) autopath() {
	if _, ok := r.args(r.d.whole(), 1, -1); ok && r.plain() {
		r.note("the client walks its search list by itself; the steps in the cluster's domain are answered from memory")
	}
}

func (r *reader) transfer() {
	t := config.Transfer{At: r.d.name.at, Zones: r.zones(r.d.args)}
	r.options(map[string]func([]token){"to": func(line []token) {
		words, _ := r.args(line, 1, -1)
		for _, w := range words {
			t.To = append(t.To, r.nets(w)...)
		}
	}})
	if len(t.To) == 0 {
		r.bad(t.At, "to whom? write `to ADDRESS`, a range, or *")
	}
	r.b.Transfers = append(r.b.Transfers, t)
}

// nets makes a word a range: an address, one in CIDR notation, or * for all.
func (r *reader) nets(t token) []netip.Prefix {
	if t.text == "*" {
		return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	if p, err := netip.ParsePrefix(t.text); err == nil {
		return []netip.Prefix{p.Masked()}
	}
	a, err := netip.ParseAddr(t.text)
	if err != nil {
		r.bad(t.at, "%q is neither an address nor a range such as 10.0.0.0/8", t.text)
		return nil
	}
	a = a.Unmap()
	return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
}
