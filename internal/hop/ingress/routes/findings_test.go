package routes

import (
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/certs/certstest"
	"github.com/podway/podway/internal/model"
)

func tlsOf(i *model.Ingress, secret string, hosts ...string) *model.Ingress {
	i.TLS = append(i.TLS, model.IngressTLS{Secret: secret, Hosts: hosts})
	return i
}

func TestAnIngressWithoutAnyClassOfOursSaysHowToMakeIt(t *testing.T) {
	for class, also := range map[string]bool{"podway": false, "nginx": true, "": true} {
		i := ing("x", "h / Prefix web:http")
		i.Class = class
		b := model.NewBuilder(nil)
		b.Put(i)
		got := Findings(Config{}, b.Snapshot(epoch))[i.Name]
		if len(got) != 1 || !strings.Contains(got[0].Fix, `metadata: {name: podway}\nspec: {controller: podway.io/ingress}\n' | kubectl create -f -`) {
			t.Fatalf("class %q: %+v", class, got)
		}
		if strings.Contains(got[0].Fix, "patch ingress x") != also {
			t.Errorf("class %q: the fix is\n%s", class, got[0].Fix)
		}
	}
}

func TestFindings(t *testing.T) {
	web := []any{svc("web"), slice("web", "10.0.0.1")}
	resource := ing("x", "h / Prefix web:http")
	resource.Rules[0].Paths[0].Backend = model.IngressBackend{Resource: "StorageBucket/static"}
	classless := ing("x", "h / Prefix web:http")
	classless.Class = ""
	annotated := ing("x", "h / Prefix web:http")
	annotated.Annotations = map[string]string{nginxPrefix + "rewrite-target": "/$1", nginxPrefix + "backend-protocol": "HTTP"}
	alien := ing("x", "h / Prefix web:http")
	alien.Class = "alien"
	tests := []struct {
		name string
		objs []any
		want []string // "ingress code words of the cause, words of the fix", in any order
	}{
		{"nothing is wrong", []any{ing("x", "h / Prefix web:http")}, nil},
		{"a Service that does not exist", []any{ing("x", "h /a Prefix gone:http")}, []string{"x PW-4003 path /a (Prefix) of host h names Service shop/gone"}},
		{"a port that the Service does not have", []any{ing("x", "h / Prefix web:https")}, []string{"x PW-4004 names port https"}},
		{"the Pods' port in place of the Service's", []any{ing("x", "h / Prefix web:8080")}, []string{"x PW-4004 names port 8080|set backend.service.port.number to 80"}},
		{"a Service without endpoints", []any{svc("empty"), ing("x", "h / Prefix empty:http")}, []string{"x PW-4005 has no ready endpoint|podway trace svc/empty -n shop"}},
		{"the younger of two with the same path", []any{ing("x", "h / Prefix web:http"), younger(ing("a", "h / Prefix web:http"), time.Hour)}, []string{"a PW-4007 is also in Ingress shop/x, which is older"}},
		{"a path twice in one Ingress", []any{ing("x", "h / Prefix web:http", "h / ImplementationSpecific web:80")}, []string{"x PW-4007 stands there twice"}},
		{"Exact and Prefix of the same path are no conflict", []any{ing("x", "h /a Prefix web:http", "h /a Exact web:80")}, nil},
		{"a resource backend", []any{resource}, []string{"x PW-4008 resource backend StorageBucket/static"}},
		{"a host that is none", []any{ing("x", "h..x / Prefix web:http", "h / Prefix web:http")}, []string{"x PW-4008 \"h..x\" is no host name"}},
		{"a wildcard in the middle", []any{ing("x", "a.*.h / Prefix web:http")}, []string{"x PW-4008 no host name"}},
		{"a path that cannot be", []any{ing("x", "h app Prefix web:http", "h /a/../b Exact web:http")}, []string{"x PW-4008 \"app\"", "x PW-4008 \"/a/../b\""}},
		{"a path that looks like a pattern", []any{ing("x", "h /a(/|$)(.*) ImplementationSpecific web:http")}, []string{"x PW-4008 looks like a pattern"}},
		{"annotations of another controller", []any{annotated}, []string{"x PW-4008 rewrite-target"}},
		{"a class that does not exist", []any{alien}, []string{"x PW-4001 class alien does not exist|ingressClassName\":\"podway"}},
		{"no class and no default class", []any{classless}, []string{"x PW-4001 names no class"}},
		{"a class of another controller is its business", []any{alien, &model.IngressClass{Name: "alien", Controller: "x.io/y"}}, nil},
		{"a TLS entry without a Secret", []any{tlsOf(ing("x", "h / Prefix web:http"), "", "h")}, []string{"x PW-4006 names no Secret|set secretName in spec.tls"}},
		{"a Secret that does not exist", []any{tlsOf(ing("x", "h / Prefix web:http"), "gone", "h")}, []string{"x PW-4006 Secret shop/gone cannot be used|kubectl -n shop create secret tls gone"}},
		{"a key that does not fit", []any{tlsOf(ing("x", "h / Prefix web:http"), "odd", "h"),
			&model.Secret{Name: model.N("shop", "odd"), Cert: certstest.Secret(t, model.Name{}, "h").Cert, Key: certstest.Secret(t, model.Name{}, "h").Key}},
			[]string{"x PW-4006 private key does not match"}},
		{"a certificate for another host", []any{tlsOf(ing("x", "h / Prefix web:http"), "c", "h"), certstest.Secret(t, model.N("shop", "c"), "other.example")}, []string{"x PW-4006 is not for host h; its names are other.example"}},
		{"a wildcard certificate for a wildcard host", []any{tlsOf(ing("x", "*.h.example / Prefix web:http"), "c", "*.h.example"), certstest.Secret(t, model.N("shop", "c"), "*.h.example")}, nil},
		{"a certificate that expired", []any{tlsOf(ing("x", "h / Prefix web:http"), "c", "h"), certstest.Until(t, epoch.Add(-time.Hour), model.N("shop", "c"), "h")}, []string{"x PW-4006 expired on 2025-12-31"}},
		{"two Secrets for one host", []any{tlsOf(ing("x", "h / Prefix web:http"), "c", "h"), tlsOf(younger(ing("y", "h /y Prefix web:http"), time.Hour), "d", "h"),
			certstest.Secret(t, model.N("shop", "c"), "h"), certstest.Secret(t, model.N("shop", "d"), "h")}, []string{"y PW-4007 certificate from Secret shop/c of Ingress shop/x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := cluster(append(web[:2:2], tt.objs...)...)
			all := Findings(Config{}, s)
			n := 0
			for name, list := range all {
				n += len(list)
				if one := Build(Config{}, s).IngressFindings(name); len(one) != len(list) && list[0].Code != flow.IngressNoClass {
					t.Errorf("%s alone has %d findings, in all it has %d", name, len(one), len(list))
				}
				for _, f := range list {
					if f.Object != "Ingress "+name.String() || f.Fix == "" || !strings.HasSuffix(f.Cause, ".") {
						t.Errorf("incomplete: %+v", f)
					}
				}
			}
			if n != len(tt.want) {
				t.Errorf("%d findings, want %d: %v", n, len(tt.want), all)
			}
			for _, w := range tt.want {
				if !found(all, w) {
					t.Errorf("lacks %q in %v", w, all)
				}
			}
		})
	}
}

func found(all map[model.Name][]flow.Finding, want string) bool {
	want, fix, _ := strings.Cut(want, "|")
	f := strings.SplitN(want, " ", 3)
	for _, x := range all[model.N("shop", f[0])] {
		if string(x.Code) == f[1] && strings.Contains(x.Cause, f[2]) && strings.Contains(x.Fix, fix) {
			return true
		}
	}
	return false
}

func TestVerdicts(t *testing.T) {
	alien := ing("alien", "alien.example / Prefix web:http")
	alien.Class = "nginx"
	s := cluster(svc("web"), slice("web", "10.0.0.2", "10.0.0.1"), svc("empty"), endpointsOf(slice("ending"), "10.0.0.9 ending"), svc("ending"),
		tlsOf(ing("main", "shop.example /app Prefix web:http", "shop.example /empty Prefix empty:80", "shop.example /ending Prefix ending:80"), "cert", "shop.example"),
		certstest.Secret(t, model.N("shop", "cert"), "shop.example"), alien)
	tab := Build(Config{}, s)
	tests := []struct {
		url, verdict, why string
		codes             string
	}{
		{"http://shop.example/app/x", "forward 10.0.0.1:8080 10.0.0.2:8080", "Ingress shop/main: path /app (Prefix) of host shop.example -> Service shop/web:http", ""},
		{"http://shop.example/app?a/../b", "forward 10.0.0.1:8080 10.0.0.2:8080", "", ""},
		{"http://shop.example/other", "answer status 404", "host shop.example has rules, none for this path", "PW-4002"},
		{"http://unknown.example/", "answer status 404", "no Ingress has a rule for host unknown.example", "PW-4002"},
		{"http://alien.example/", "answer status 404", "no Ingress has a rule", "PW-4001 PW-4002"},
		{"http://shop.example/empty", "answer status 503", "Service shop/empty:80", "PW-4005"},
		{"http://shop.example/ending", "forward 10.0.0.9:8080", "still serve while they end", ""},
		{"http://shop.example/a/../b", "answer status 400", ErrDots.Error(), ""},
		{"http://a/b/", "answer status 404", "", "PW-4002"},
		{"https://shop.example/app", "forward 10.0.0.1:8080 10.0.0.2:8080", "TLS with Secret shop/cert of Ingress shop/main", ""},
		{"https://unknown.example/", "answer status 404", "TLS with the default certificate", "PW-4002 PW-4006"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			scheme, rest, _ := strings.Cut(tt.url, "://")
			host, path, _ := strings.Cut(rest, "/")
			v := tab.Verdict(flow.Flow{HTTP: &flow.Request{Scheme: scheme, Host: host, Path: "/" + path}})
			var codes []string
			for _, f := range v.Findings {
				codes = append(codes, string(f.Code))
			}
			if v.String() != tt.verdict || !strings.Contains(v.Why, tt.why) || strings.Join(codes, " ") != tt.codes {
				t.Errorf("got %s (%s) %v", v, v.Why, codes)
			}
		})
	}
	if v := tab.Verdict(flow.Flow{}); v.Action != flow.Pass {
		t.Errorf("a flow without request: %s", v)
	}
}

func TestTLSOfAHost(t *testing.T) {
	good := certstest.Secret(t, model.N("shop", "good"), "h.example", "*.own.example")
	s := cluster(good, &model.Secret{Name: model.N("shop", "bad"), Cert: []byte("x")},
		tlsOf(ing("a", "h.example / Prefix a:80"), "bad", "h.example"),
		tlsOf(younger(ing("b", "h.example /b Prefix a:80"), time.Hour), "good", "h.example"),
		tlsOf(younger(ing("c"), 2*time.Hour), "good"))
	tab := Build(Config{}, s)
	for host, want := range map[string]string{
		"h.example":     "shop/b", // the older one's Secret cannot be used
		"x.own.example": "shop/c", // named by the certificate alone
		"own.example":   "", "x.y.own.example": "", "other": "",
	} {
		got := ""
		if e := tab.TLSFor(host); e != nil {
			got = e.Ingress.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
}
