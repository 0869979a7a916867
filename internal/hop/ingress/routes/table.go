package routes

import (
	"strings"

	"github.com/podway/podway/internal/hop/ingress/certs"
	"github.com/podway/podway/internal/model"
)

// Table is all routes of one snapshot. It is immutable and safe for concurrent use.
type Table struct {
	cfg      Config
	snap     *model.Snapshot
	fallback *Route // the controller's default backend, nil = none
	// defaultCert is that of Config.DefaultSecret, nil when none is configured.
	defaultCert *parsed

	hosts    model.Map[string, *hostRoutes]
	members  model.Map[string, *members]         // host -> the Ingresses that have rules for it
	backends model.Map[BackendKey, *Backend]     // those that a route needs
	uses     model.Map[BackendKey, use]          // backend -> who needs it
	slots    slots                               // the backends again, by Route.slot
	services model.Map[model.Name, *serviceKeys] // Service -> its backends
	tls      model.Map[string, *TLS]             // host -> certificate
	tlsUsers model.Map[string, *members]         // host -> the Ingresses that have TLS for it
	certs    model.Map[model.Name, *parsed]      // Secret -> certificate
	secrets  model.Map[model.Name, *members]     // Secret -> the Ingresses that name it
}

// Route is one path of one host, or a default backend.
type Route struct {
	slot    int32 // of Backend in Table.slots
	Kind    Kind
	Ingress model.Name // zero for the controller's default backend
	Host    string     // as written in the rule, "" = every host
	Path    string     // as written in the rule
	Type    model.PathType
	Backend BackendKey
}

// Kind says what sort of route it is.
type Kind string

// The kinds of routes.
const (
	Rule           Kind = "rule"
	IngressDefault Kind = "default backend of the Ingress"
	Default        Kind = "default backend of the controller"
)

// TLS says which Secret serves a host, and in the name of which Ingress.
type TLS struct {
	Host    string // as written
	Ingress model.Name
	Cert    *certs.Cert
}

// members are Ingresses in the order of precedence: oldest first, then by name.
type members struct{ ings []*model.Ingress }

type use struct {
	slot  int32
	hosts int
}

type serviceKeys struct{ keys []BackendKey }

// parsed remembers from which object a certificate was made.
type parsed struct {
	secret *model.Secret
	cert   *certs.Cert
}

// hostRoutes is what one host answers.
type hostRoutes struct {
	paths    paths
	fallback *Route // default backend of the oldest Ingress with rules for the host
	catchAll *Route // only in host "": default backend of the oldest Ingress without rules
	losers   []Loss
	keys     []BackendKey // all that its routes need, each once
}

// Loss is a route that another one of the same host and path keeps from being used.
type Loss struct{ Loser, Winner *Route }

// Match is what a table says about a request. Route is nil when nothing answers: 404.
type Match struct {
	Route   *Route
	Backend *Backend
}

// Resolve finds the route of a request and the path to forward. The host is as Host returns it, the path as the client
// sent it, without the query. An error means 400. A path with an encoded slash or empty elements is good as long as every
// way to read it leads to the same route, so that nobody gets past a rule by spelling.
func (t *Table) Resolve(host, rawPath string) (Match, string, error) {
	path, slashes, err := Canonical(rawPath)
	if err != nil {
		return Match{}, "", err
	}
	route := t.find(host, path)
	if slashes {
		for _, r := range readings(path) {
			if t.find(host, r) != route {
				return Match{}, "", ErrAmbiguous
			}
		}
	}
	if route == nil {
		return Match{}, path, nil
	}
	return Match{Route: route, Backend: t.slots.at(route.slot)}, path, nil
}

// find chooses the host first (exact, wildcard, any) and then the path in it. A host with rules of its own never uses the
// rules of a less precise one; only default backends are left then.
func (t *Table) find(host, path string) *Route {
	h := t.host(host)
	if h != nil {
		if r := h.paths.find(path); r != nil {
			return r
		}
		if h.fallback != nil {
			return h.fallback
		}
	}
	if all := t.hosts.At(""); all != nil && all.catchAll != nil {
		return all.catchAll
	}
	return t.fallback
}

// host returns the routes of the most precise host, nil when there is none.
func (t *Table) host(host string) *hostRoutes {
	if host != "" {
		if h, ok := t.hosts.Get(host); ok {
			return h
		}
		if i := strings.IndexByte(host, '.'); i > 0 {
			if h, ok := t.hosts.Get(host[i:]); ok {
				return h
			}
		}
	}
	return t.hosts.At("")
}

// TLSFor returns the TLS of the name a client asks for; nil = the default certificate.
func (t *Table) TLSFor(host string) *TLS {
	if e, ok := t.tls.Get(host); ok {
		return e
	}
	if i := strings.IndexByte(host, '.'); i > 0 {
		return t.tls.At(host[i:])
	}
	return nil
}

// DefaultCert is the certificate of Config.DefaultSecret, nil when none is configured.
func (t *Table) DefaultCert() *certs.Cert {
	if t.defaultCert == nil {
		return nil
	}
	return t.defaultCert.cert
}

// Hosts is the number of hosts with routes.
func (t *Table) Hosts() int { return t.hosts.Len() }

// Snapshot is what the table was made from.
func (t *Table) Snapshot() *model.Snapshot { return t.snap }

// Rev is the revision of the snapshot that the table was made from.
func (t *Table) Rev() uint64 { return t.snap.Rev }

// Backend returns the backend of a route of this table.
func (t *Table) Backend(k BackendKey) *Backend { return t.backends.At(k) }

// ChangedBackends calls f for each backend that differs between two tables; old may be nil.
func ChangedBackends(old, new *Table, f func(BackendKey)) {
	if old == nil {
		old = &Table{}
	}
	model.Changed(old.backends, new.backends, f)
}

// ChangedRoutes counts the hosts and backends that differ between two tables, and says whether more differs than the
// endpoints of backends that go on serving; old may be nil.
func ChangedRoutes(old, new *Table) (n int, more bool) {
	if old == nil {
		old = &Table{}
	}
	model.Changed(old.hosts, new.hosts, func(string) {
		n++
		more = true
	})
	model.Changed(old.backends, new.backends, func(k BackendKey) {
		n++
		was, is := old.backends.At(k), new.backends.At(k)
		more = more || was == nil || is == nil || was.State != is.State
	})
	return n, more
}

// ChangedTLS calls f for each host whose certificate differs between two tables, with nil when it has none any more; the
// host is in the form that certs.Store wants. Old may be nil.
func ChangedTLS(old, new *Table, f func(host string, e *TLS)) {
	if old == nil {
		old = &Table{}
	}
	model.Changed(old.tls, new.tls, func(h string) { f(h, new.tls.At(h)) })
}
