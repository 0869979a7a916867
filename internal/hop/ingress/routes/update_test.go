package routes

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/ingress/certs/certstest"
	"github.com/podway/podway/internal/model"
)

// world makes random changes to a small cluster, so that names collide all the time.
type world struct {
	rnd *rand.Rand
	b   *model.Builder
	// secrets are good certificates for hosts, to be put under any name.
	secrets []*model.Secret
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 7)), b: model.NewBuilder(nil)}
	for i := range 3 {
		w.secrets = append(w.secrets, certstest.Secret(t, model.N("shop", "s"), fmt.Sprintf("h%d.example", i), "*.w.example"))
	}
	w.b.Put(&model.IngressClass{Name: "podway", Controller: DefaultController})
	return w
}

func (w *world) pick(of ...string) string { return of[w.rnd.IntN(len(of))] }

func (w *world) host() string {
	return w.pick("", "h0.example", "H0.example", "h1.example", "h2.example", "*.w.example", "a.w.example", "bad host")
}

func (w *world) backend() model.IngressBackend {
	if w.rnd.IntN(10) == 0 {
		return model.IngressBackend{Resource: "bucket/x"}
	}
	return backendOf(w.pick("a", "b", "c") + ":" + w.pick("http", "80", "81", "other"))
}

func (w *world) ingress() *model.Ingress {
	out := &model.Ingress{
		Name: model.N("shop", fmt.Sprint("i", w.rnd.IntN(6))), Class: w.pick("podway", "podway", "podway", "", "alien"),
		Created: epoch.Add(time.Duration(w.rnd.IntN(4)) * time.Hour), Annotations: map[string]string{},
	}
	if w.rnd.IntN(4) == 0 {
		out.Annotations[protocolAnnotation] = w.pick("GRPC", "HTTPS", "nonsense")
	}
	for range w.rnd.IntN(4) {
		rule := model.IngressRule{Host: w.host()}
		for range w.rnd.IntN(4) {
			rule.Paths = append(rule.Paths, model.IngressPath{
				Path: w.pick("/", "/a", "/a/", "/a/b", "/b", "bad", ""), Backend: w.backend(),
				Type: model.PathType(w.pick("Exact", "Prefix", "ImplementationSpecific")),
			})
		}
		out.Rules = append(out.Rules, rule)
	}
	for range w.rnd.IntN(3) {
		entry := model.IngressTLS{Secret: w.pick("s0", "s1", "s2")}
		for range w.rnd.IntN(3) {
			entry.Hosts = append(entry.Hosts, w.host())
		}
		out.TLS = append(out.TLS, entry)
	}
	if w.rnd.IntN(3) == 0 {
		b := w.backend()
		out.Default = &b
	}
	return out
}

func (w *world) service() *model.Service {
	s := svc(w.pick("a", "b", "c"))
	if w.rnd.IntN(8) == 0 {
		s.Type = model.ExternalName
	}
	s.Ports[0].AppProtocol = w.pick("", "", "kubernetes.io/h2c")
	s.Ports[0].Port = uint16(80 + w.rnd.IntN(2))
	return s
}

func (w *world) slice() *model.EndpointSlice {
	sl := slice(w.pick("a", "b", "c"))
	sl.Name.Name += w.pick("", "x")
	for range w.rnd.IntN(4) {
		e := model.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(w.rnd.IntN(9))})}
		e.Ready, e.Serving, e.Terminating = w.rnd.IntN(2) == 0, w.rnd.IntN(2) == 0, w.rnd.IntN(2) == 0
		sl.Endpoints = append(sl.Endpoints, e)
	}
	return sl
}

func (w *world) secret() *model.Secret {
	s := *w.secrets[w.rnd.IntN(len(w.secrets))]
	s.Name.Name = w.pick("s0", "s1", "s2")
	if w.rnd.IntN(4) == 0 {
		s.Key = []byte("rubbish")
	}
	return &s
}

func (w *world) step() *model.Snapshot {
	for range 1 + w.rnd.IntN(4) {
		var obj any
		switch w.rnd.IntN(12) {
		case 0, 1, 2, 3:
			obj = w.ingress()
		case 4, 5:
			obj = w.service()
		case 6, 7, 8:
			obj = w.slice()
		case 9, 10:
			obj = w.secret()
		default:
			obj = &model.IngressClass{Name: w.pick("podway", "alien"), Controller: w.pick(DefaultController, DefaultController, "x.io/y"), Default: w.rnd.IntN(2) == 0}
		}
		if w.rnd.IntN(4) == 0 {
			w.b.Delete(obj)
		} else {
			w.b.Put(obj)
		}
	}
	return w.b.Snapshot(epoch)
}

func TestUpdatingFromAnySnapshotToAnyOtherEqualsBuilding(t *testing.T) {
	cfg := Config{DefaultBackend: ServiceRef{Service: model.N("shop", "a"), Port: model.PortRef{Number: 80}}}
	for seed := range uint64(6) {
		w := newWorld(t, seed)
		history := []*model.Snapshot{w.step()}
		tab := Build(cfg, history[0])
		at := history[0]
		for i := range 250 {
			next := w.step()
			if i%5 == 4 { // anywhere, also back
				next = history[w.rnd.IntN(len(history))]
			}
			history = append(history, next)
			tab = tab.Update(next, model.Diff(at, next))
			at = next
			checkSame(t, tab, Build(cfg, next), seed, i)
		}
	}
}

func checkSame(t *testing.T, got, want *Table, seed uint64, step int) {
	t.Helper()
	if g, w := got.Text(), want.Text(); g != w {
		t.Fatalf("seed %d step %d: updated\n%s\nbuilt\n%s", seed, step, g, w)
	}
	if g, w := got.sizes(), want.sizes(); g != w {
		t.Fatalf("seed %d step %d: an index differs: updated %v, built %v", seed, step, g, w)
	}
	for _, h := range got.hosts.All() {
		h.each(func(r *Route) {
			if got.slots.at(r.slot) != got.backends.At(r.Backend) {
				t.Fatalf("seed %d step %d: slot %d is not %v", seed, step, r.slot, r.Backend)
			}
		})
	}
	if g, w := fmt.Sprint(got.Findings()), fmt.Sprint(want.Findings()); len(g) != len(w) {
		t.Fatalf("seed %d step %d: findings differ: updated\n%s\nbuilt\n%s", seed, step, g, w)
	}
}

func (t *Table) sizes() [9]int {
	return [9]int{t.hosts.Len(), t.members.Len(), t.backends.Len(), t.uses.Len(), t.services.Len(),
		t.tls.Len(), t.tlsUsers.Len(), t.certs.Len(), t.secrets.Len()}
}

func TestAnEndpointChangeReplacesOneBackendAndNothingElse(t *testing.T) {
	b := model.NewBuilder(cluster(append(letters(), ing("x", "h / Prefix a:http", "g / Prefix b:http"))...))
	one := b.Snapshot(epoch)
	tab := Build(Config{}, one)
	b.Put(slice("a", "10.0.0.77"))
	b.Put(slice("f", "10.0.0.78")) // used by no Ingress
	two := b.Snapshot(epoch)
	next := tab.Update(two, model.Diff(one, two))
	var changed []string
	ChangedBackends(tab, next, func(k BackendKey) { changed = append(changed, k.Service.Name) })
	if len(changed) != 1 || changed[0] != "a" {
		t.Errorf("changed backends: %v, want a", changed)
	}
	if tab.hosts.At("h") != next.hosts.At("h") {
		t.Error("the routes of the host were made anew")
	}
	if got := next.Backend(BackendKey{Service: model.N("shop", "a"), Port: model.PortRef{Name: "http"}}).Endpoints[0].String(); got != "10.0.0.77:8080" {
		t.Errorf("the new endpoint is %s", got)
	}
	if got := tab.Backend(BackendKey{Service: model.N("shop", "a"), Port: model.PortRef{Name: "http"}}).Endpoints[0].String(); got != "10.0.0.1:8080" {
		t.Errorf("the old table changed: %s", got)
	}
}
