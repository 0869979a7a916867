package routes

import (
	"slices"

	"github.com/podway/podway/internal/hop/ingress/certs"
	"github.com/podway/podway/internal/model"
)

// Build makes the table of a snapshot.
func Build(cfg Config, s *model.Snapshot) *Table {
	cfg = cfg.withDefaults()
	e := newEdit(&Table{cfg: cfg, snap: &model.Snapshot{}}, s)
	if d := cfg.DefaultBackend; d.Service.Name != "" {
		e.t.fallback = &Route{Kind: Default, Backend: BackendKey{Service: d.Service, Port: d.Port}}
		e.t.fallback.slot = e.use(e.t.fallback.Backend, 1)
	}
	for ing := range s.Ingresses.Values() {
		e.join(ing)
	}
	return e.finish()
}

// Update derives the table of s from the last one; the result equals Build's. Its cost is that of c: an endpoint change
// makes one Backend anew, an Ingress change the hosts it names.
func (t *Table) Update(s *model.Snapshot, c model.Change) *Table {
	if c.All || len(c.Classes) > 0 {
		return Build(t.cfg, s)
	}
	e := newEdit(t, s)
	for _, n := range e.touchedIngresses(c) {
		if ing, ok := t.snap.Ingresses.Get(n); ok {
			e.leave(ing)
		}
	}
	for _, n := range e.touchedIngresses(c) {
		if ing, ok := s.Ingresses.Get(n); ok {
			e.join(ing)
		}
	}
	for _, svc := range c.Services {
		if k := t.services.At(svc); k != nil {
			for _, key := range k.keys {
				e.keys[key] = true
			}
		}
	}
	return e.finish()
}

// edit is a table on its way to the next snapshot.
type edit struct {
	old *Table
	t   *Table
	ins map[listKey][]*model.Ingress // joined
	out map[listKey]map[model.Name]bool
	// keys are the backends to look at again.
	keys map[BackendKey]bool
}

// listKey names one of the lists of Ingresses.
type listKey struct {
	kind listKind
	host string
	name model.Name // of a Secret
}

type listKind byte

const (
	byHost listKind = iota
	byTLSHost
	bySecret
)

func newEdit(old *Table, s *model.Snapshot) *edit {
	next := *old
	next.snap = s
	return &edit{
		old: old, t: &next,
		ins: map[listKey][]*model.Ingress{}, out: map[listKey]map[model.Name]bool{}, keys: map[BackendKey]bool{},
	}
}

// touchedIngresses are those that changed and those whose Secrets did.
func (e *edit) touchedIngresses(c model.Change) []model.Name {
	out := slices.Clone(c.Ingresses)
	for _, secret := range c.Secrets {
		if m := e.old.secrets.At(secret); m != nil {
			for _, ing := range m.ings {
				out = append(out, ing.Name)
			}
		}
	}
	slices.SortFunc(out, model.Name.Compare)
	return slices.Compact(out)
}

// leave takes an Ingress of the old snapshot out of all lists.
func (e *edit) leave(ing *model.Ingress) {
	if e.old.cfg.Standing(e.old.snap, ing) != Served {
		return
	}
	each(e.old, ing, func(k listKey) {
		if e.out[k] == nil {
			e.out[k] = map[model.Name]bool{}
		}
		e.out[k][ing.Name] = true
	})
}

// join puts an Ingress of the new snapshot into the lists, its Secrets first: the names of their certificates count.
func (e *edit) join(ing *model.Ingress) {
	if e.t.cfg.Standing(e.t.snap, ing) != Served {
		return
	}
	for _, entry := range ing.TLS {
		e.parse(model.N(ing.Name.Namespace, entry.Secret))
	}
	each(e.t, ing, func(k listKey) { e.ins[k] = append(e.ins[k], ing) })
}

// parse makes the certificate of a Secret unless the table has it already.
func (e *edit) parse(n model.Name) {
	was := e.t.certs.At(n)
	if p := was.renew(n, e.t.snap); p != was {
		e.t.certs = e.t.certs.Set(n, p)
	}
}

// renew parses a Secret again when it is another object than last time.
func (p *parsed) renew(n model.Name, s *model.Snapshot) *parsed {
	secret := s.Secrets.At(n)
	if p != nil && p.secret == secret {
		return p
	}
	return &parsed{secret: secret, cert: certs.Parse(n, secret)}
}

// each names the lists that an Ingress stands in, each once.
func each(t *Table, ing *model.Ingress, f func(listKey)) {
	for _, h := range hostsOf(ing) {
		f(listKey{kind: byHost, host: h})
	}
	for _, h := range t.tlsHostsOf(ing) {
		f(listKey{kind: byTLSHost, host: h})
	}
	seen := map[string]bool{}
	for _, entry := range ing.TLS {
		if !seen[entry.Secret] {
			seen[entry.Secret] = true
			f(listKey{kind: bySecret, name: model.N(ing.Name.Namespace, entry.Secret)})
		}
	}
}

// finish makes all that is touched anew.
func (e *edit) finish() *Table {
	touched := map[listKey]bool{}
	for k := range e.ins {
		touched[k] = true
	}
	for k := range e.out {
		touched[k] = true
	}
	for k := range touched {
		switch k.kind {
		case byHost:
			e.finishHost(k)
		case byTLSHost:
			e.finishTLS(k)
		case bySecret:
			e.t.secrets = replace(e.t.secrets, k.name, e.list(k, e.t.secrets.At(k.name)))
			if e.t.secrets.At(k.name) == nil {
				e.t.certs = e.t.certs.Delete(k.name)
			}
		}
	}
	for k := range e.keys {
		e.finishBackend(k)
	}
	if n := e.t.cfg.DefaultSecret; n.Name != "" {
		e.t.defaultCert = e.t.defaultCert.renew(n, e.t.snap)
	}
	return e.t
}

// list is the list k after leaving and joining.
func (e *edit) list(k listKey, was *members) *members {
	var out members
	if was != nil {
		for _, ing := range was.ings {
			if !e.out[k][ing.Name] {
				out.ings = append(out.ings, ing)
			}
		}
	}
	out.ings = append(out.ings, e.ins[k]...)
	slices.SortFunc(out.ings, (*model.Ingress).Compare)
	return &out
}

func (e *edit) finishHost(k listKey) {
	m := e.list(k, e.t.members.At(k.host))
	e.t.members = replace(e.t.members, k.host, m)
	if was := e.t.hosts.At(k.host); was != nil {
		for _, key := range was.keys {
			e.use(key, -1)
		}
	}
	if len(m.ings) == 0 {
		e.t.hosts = e.t.hosts.Delete(k.host)
		return
	}
	h := buildHost(k.host, m)
	for _, key := range h.keys {
		e.use(key, 1)
	}
	h.each(func(r *Route) { r.slot = e.t.uses.At(r.Backend).slot })
	e.t.hosts = e.t.hosts.Set(k.host, h)
}

func (e *edit) finishTLS(k listKey) {
	m := e.list(k, e.t.tlsUsers.At(k.host))
	e.t.tlsUsers = replace(e.t.tlsUsers, k.host, m)
	next, was := e.t.chooseTLS(k.host, m), e.t.tls.At(k.host)
	switch {
	case next == nil:
		e.t.tls = e.t.tls.Delete(k.host)
	case was == nil || *was != *next:
		e.t.tls = e.t.tls.Set(k.host, next)
	}
}

// use counts the hosts that need a backend and returns its slot.
func (e *edit) use(k BackendKey, by int) int32 {
	u, known := e.t.uses.Get(k)
	if !known {
		u.slot = e.t.slots.take()
	}
	u.hosts += by
	e.t.uses = e.t.uses.Set(k, u)
	e.keys[k] = true
	return u.slot
}

func (e *edit) finishBackend(k BackendKey) {
	t := e.t
	was, known := t.backends.Get(k)
	u := t.uses.At(k)
	if u.hosts == 0 {
		t.uses, t.backends = t.uses.Delete(k), t.backends.Delete(k)
		t.slots.put(u.slot)
		e.index(k, false)
		return
	}
	if !known {
		e.index(k, true)
	}
	if b := resolve(t.snap, k); !known || !b.equal(was) {
		t.backends = t.backends.Set(k, b)
		t.slots.set(u.slot, b)
	}
}

// index keeps the way from a Service to its backends.
func (e *edit) index(k BackendKey, in bool) {
	var next serviceKeys
	if was := e.t.services.At(k.Service); was != nil {
		for _, x := range was.keys {
			if x != k {
				next.keys = append(next.keys, x)
			}
		}
	}
	if in {
		next.keys = append(next.keys, k)
	}
	if len(next.keys) == 0 {
		e.t.services = e.t.services.Delete(k.Service)
		return
	}
	e.t.services = e.t.services.Set(k.Service, &next)
}

func replace[K comparable](m model.Map[K, *members], k K, v *members) model.Map[K, *members] {
	if len(v.ings) == 0 {
		return m.Delete(k)
	}
	return m.Set(k, v)
}
