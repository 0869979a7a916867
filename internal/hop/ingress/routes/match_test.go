package routes

import (
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
)

// services a to f, each with an endpoint.
func letters() []any {
	var out []any
	for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
		out = append(out, svc(n), slice(n, "10.0.0."+string('1'+n[0]-'a')))
	}
	return out
}

func TestMatching(t *testing.T) {
	tests := []struct {
		name    string
		objects []any
		asks    [][3]string // host, path, answer
	}{
		{"an exact host beats a wildcard, which beats none",
			[]any{ing("x", "www.shop.example / Prefix a:http", "*.shop.example / Prefix b:http", "- / Prefix c:http")},
			[][3]string{{"www.shop.example", "/", "a"}, {"api.shop.example", "/", "b"}, {"other.example", "/", "c"}, {"", "/", "c"}}},
		{"a wildcard stands for exactly one label",
			[]any{ing("x", "*.shop.example / Prefix a:http")},
			[][3]string{{"www.shop.example", "/", "a"}, {"shop.example", "/", "404"}, {"a.b.shop.example", "/", "404"}, {".shop.example", "/", "400"}}},
		{"a host is the same in any case, with a port, with a final dot",
			[]any{ing("x", "Shop.Example / Prefix a:http")},
			[][3]string{{"shop.example", "/", "a"}, {"SHOP.example:8443", "/", "a"}, {"shop.example.", "/", "a"}, {"shop.example:x", "/", "400"}}},
		{"a host with rules does not use those of a less precise host",
			[]any{ing("x", "www.shop.example /api Prefix a:http", "- / Prefix b:http")},
			[][3]string{{"www.shop.example", "/api", "a"}, {"www.shop.example", "/", "404"}, {"x.example", "/", "b"}}},
		{"a prefix matches by whole elements",
			[]any{ing("x", "h /foo Prefix a:http")},
			[][3]string{{"h", "/foo", "a"}, {"h", "/foo/", "a"}, {"h", "/foo/bar", "a"}, {"h", "/foobar", "404"}, {"h", "/fo", "404"}, {"h", "/", "404"}, {"h", "/FOO", "404"}}},
		{"a final slash of a prefix means nothing",
			[]any{ing("x", "h /foo/ Prefix a:http")},
			[][3]string{{"h", "/foo", "a"}, {"h", "/foo/", "a"}, {"h", "/foo/bar", "a"}, {"h", "/foobar", "404"}}},
		{"the longest prefix wins in any order",
			[]any{ing("x", "h / Prefix a:http", "h /aaa/bbb Prefix c:http", "h /aaa Prefix b:http")},
			[][3]string{{"h", "/", "a"}, {"h", "/aaa", "b"}, {"h", "/aaa/ccc", "b"}, {"h", "/aaa/bbb", "c"}, {"h", "/aaa/bbb/ccc", "c"}, {"h", "/ccc", "a"}}},
		{"an exact path matches to the letter and beats a prefix",
			[]any{ing("x", "h /foo Prefix a:http", "h /foo Exact b:http", "h /bar/ Exact c:http")},
			[][3]string{{"h", "/foo", "b"}, {"h", "/foo/", "a"}, {"h", "/foo/x", "a"}, {"h", "/bar/", "c"}, {"h", "/bar", "404"}}},
		{"ImplementationSpecific is a prefix, and an empty path is /",
			[]any{&model.Ingress{Name: model.N("shop", "x"), Class: "podway", Rules: []model.IngressRule{{Host: "h", Paths: []model.IngressPath{
				{Type: model.PathSpecific, Backend: backendOf("a:http")}, {Path: "/b", Type: model.PathSpecific, Backend: backendOf("b:http")}}}}}},
			[][3]string{{"h", "/", "a"}, {"h", "/x", "a"}, {"h", "/b/x", "b"}, {"h", "/bx", "a"}}},
		{"a prefix deep below nothing does not hide a shorter one",
			[]any{ing("x", "h /a/b/c/d Prefix a:http", "h /a Prefix b:http")},
			[][3]string{{"h", "/a/b/c", "b"}, {"h", "/a/b/c/d", "a"}, {"h", "/a/b/c/d/e", "a"}}},
		{"the oldest Ingress has the path, then the first by name",
			[]any{younger(ing("a-young", "h /x Prefix a:http"), time.Hour), ing("old", "h /x Prefix b:http", "h /y Exact b:http"), ing("older", "h /y Exact c:http")},
			[][3]string{{"h", "/x", "b"}, {"h", "/y", "b"}}},
		{"two Ingresses share a host",
			[]any{ing("one", "h /a Prefix a:http"), ing("two", "h /b Prefix b:http")},
			[][3]string{{"h", "/a", "a"}, {"h", "/b", "b"}}},
		{"a host named in two spellings is one host",
			[]any{ing("one", "H.example /a Prefix a:http"), ing("two", "h.EXAMPLE /b Prefix b:http")},
			[][3]string{{"h.example", "/a", "a"}, {"h.example", "/b", "b"}}},
		{"a rule's path is matched in its canonical form",
			[]any{ing("x", "h /caf%c3%a9/%7Euser Prefix a:http", "h /été Exact b:http")},
			[][3]string{{"h", "/caf%C3%A9/~user", "a"}, {"h", "/%C3%A9t%C3%A9", "b"}, {"h", "/été", "b"}}},
		{"many elements and an endless path",
			[]any{ing("x", "h /a Prefix a:http")},
			[][3]string{{"h", "/a/b/c/d/e/f/g/h/i/j/k", "a"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := Build(Config{}, cluster(append(letters(), tt.objects...)...))
			for _, a := range tt.asks {
				if got := goes(t, tab, a[0], a[1]); got != a[2] {
					t.Errorf("%s%s: got %s, want %s", a[0], a[1], got, a[2])
				}
			}
		})
	}
}

func TestDefaultBackends(t *testing.T) {
	withDefault := func(i *model.Ingress, to string) *model.Ingress {
		b := backendOf(to)
		i.Default = &b
		return i
	}
	objects := append(letters(), withDefault(ing("one", "h /a Prefix a:http"), "b:http"), ing("two", "g /a Prefix a:http"))
	own := Config{DefaultBackend: ServiceRef{Service: model.N("shop", "d"), Port: model.PortRef{Number: 80}}}
	all := append(objects[:len(objects):len(objects)], withDefault(ing("zero"), "c:80"), younger(withDefault(ing("aaa"), "e:80"), 1))
	tests := []struct {
		name       string
		tab        *Table
		host, path string
		want       string
	}{
		{"an Ingress's default backend answers for its hosts", Build(Config{}, cluster(objects...)), "h", "/x", "b"},
		{"and for no other host with rules", Build(Config{}, cluster(objects...)), "g", "/x", "404"},
		{"and for no host without rules", Build(Config{}, cluster(objects...)), "x", "/", "404"},
		{"then comes the default backend of the controller", Build(own, cluster(objects...)), "g", "/x", "d"},
		{"also for hosts that nobody knows", Build(own, cluster(objects...)), "x", "/", "d"},
		{"an Ingress without rules answers for all before the controller's", Build(own, cluster(all...)), "x", "/", "c"},
		{"also for other paths of a known host", Build(own, cluster(all...)), "g", "/x", "c"},
		{"but not before the Ingress's own", Build(own, cluster(all...)), "h", "/x", "b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := goes(t, tt.tab, tt.host, tt.path); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestClasses(t *testing.T) {
	class := func(name, controller string, def bool) *model.IngressClass {
		return &model.IngressClass{Name: name, Controller: controller, Default: def}
	}
	of := func(class string, annotated bool) *model.Ingress {
		i := ing("x", "h / Prefix a:http")
		i.Class = class
		if annotated {
			i.Annotations = map[string]string{legacyClass: class}
		}
		return i
	}
	tests := []struct {
		name string
		cfg  Config
		objs []any
		want string
	}{
		{"a class of our controller is served", Config{}, []any{of("public", false), class("public", DefaultController, false)}, "a"},
		{"a class of another controller is not", Config{}, []any{of("public", false), class("public", "k8s.io/other", false)}, "404"},
		{"a class that does not exist is not", Config{}, []any{of("public", false)}, "404"},
		{"the legacy annotation needs no class object", Config{Class: "mine"}, []any{of("mine", true)}, "a"},
		{"the legacy annotation of another controller is left alone", Config{}, []any{of("nginx", true)}, "404"},
		{"the legacy annotation may name a class object", Config{}, []any{of("public", true), class("public", DefaultController, false)}, "a"},
		{"without a class the default class decides", Config{}, []any{of("", false), class("dflt", DefaultController, true)}, "a"},
		{"a default class of another controller keeps us out", Config{}, []any{of("", false), class("dflt", "k8s.io/other", true)}, "404"},
		{"without a class and a default class nobody serves", Config{}, []any{of("", false)}, "404"},
		{"the controller's name can be chosen", Config{Controller: "x.io/y"}, []any{of("public", false), class("public", "x.io/y", false)}, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := Build(tt.cfg, cluster(append(letters(), tt.objs...)...))
			if got := goes(t, tab, "h", "/"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestABadPartOfAnIngressLeavesAllElseAlone(t *testing.T) {
	broken := ing("broken", "h..x / Prefix a:http", "h nonsense Prefix a:http", "h /gone Prefix nobody:http", "h /port Prefix a:nope", "h /good Prefix b:http")
	broken.TLS = []model.IngressTLS{{Hosts: []string{"*"}, Secret: "none"}}
	tab := Build(Config{}, cluster(append(letters(), broken, younger(ing("other", "h / Prefix c:http"), time.Hour))...))
	for path, want := range map[string]string{"/good": "b", "/gone": string(NoService), "/port": string(NoPort), "/": "c", "/x": "c"} {
		if got := goes(t, tab, "h", path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestAnIngressMovesToAnotherNameWithoutAGap(t *testing.T) {
	b := model.NewBuilder(cluster(append(letters(), ing("old", "h / Prefix a:http"))...))
	at := b.Snapshot(epoch)
	tab := Build(Config{}, at)
	for _, step := range []func(){
		func() { b.Put(younger(ing("new", "h / Prefix a:http"), time.Hour)) },
		func() { b.Delete(ing("old")) },
	} {
		step()
		next := b.Snapshot(epoch)
		tab = tab.Update(next, model.Diff(at, next))
		at = next
		if got := goes(t, tab, "h", "/"); got != "a" {
			t.Errorf("got %s", got)
		}
	}
}
