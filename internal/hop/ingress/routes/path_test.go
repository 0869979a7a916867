package routes

import (
	"net/url"
	"strings"
	"testing"
)

func TestCanonicalPaths(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"/", "/"},
		{"/a/b", "/a/b"},
		{"/%61dmin", "/admin"},
		{"/a%7eb%2D", "/a~b-"},
		{"/caf%c3%a9", "/caf%C3%A9"},
		{"/café", "/caf%C3%A9"},
		{"/a%20b+c", "/a%20b+c"},
		{"/a%252fb", "/a%252fb"},
		{"/.well-known/acme-challenge/x", "/.well-known/acme-challenge/x"},
		{"/..a/b..", "/..a/b.."},
		{"/a..%20/b", "/a..%20/b"},
		{"/a//b", "/a//b"},
		{"/@scope%2fname", "/@scope%2Fname"},
		{"/a;v=1/b", "/a;v=1/b"},
		{`/a"<>^{}|[]b`, "/a%22%3C%3E%5E%7B%7D%7C%5B%5Db"},
		{"/a%3Fb%23c", "/a%3Fb%23c"},
		{"", ""}, {"a", ""}, {"*", ""},
		{"/a%00", ""}, {"/a%0d%0a", ""}, {"/a\x00", ""}, {"/a\x7f", ""}, {"/a b", ""}, {"/a\tb", ""},
		{`/a\b`, ""}, {"/a%5cb", ""}, {"/a%5Cb", ""},
		{"/a?b", ""}, {"/a#b", ""},
		{"/%", ""}, {"/%4", ""}, {"/%zz", ""}, {"/%4g", ""},
		{"/a/../b", ""}, {"/..", ""}, {"/.", ""}, {"/./a", ""}, {"/a/.", ""}, {"/a/%2e%2e/b", ""}, {"/a/.%2E", ""},
		{"/public/..%2fadmin", ""}, {"/public%2f..%2fadmin", ""}, {"/public/..;/admin", ""}, {"/public/..;v=1/admin", ""},
		{"/public/..%3b/admin", ""}, {"/%2e", ""},
	}
	for _, tt := range tests {
		got, _, err := Canonical(tt.raw)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q: got %q, %v; want %q", tt.raw, got, err, tt.want)
		}
	}
}

func TestAPathWithTwoReadingsIsGoodOnlyIfBothLeadToTheSameRule(t *testing.T) {
	tab := Build(Config{}, cluster(append(letters(),
		ing("npm", "npm / Prefix a:http"),
		ing("app", "app / Prefix a:http", "app /public Prefix b:http", "app /public/admin Prefix c:http", "app /public/x Exact d:http"))...))
	for _, tt := range []struct{ host, path, want string }{
		{"npm", "/@scope%2fname", "a"},
		{"npm", "/proxy/http://x.example/", "a"},
		{"npm", "//", "a"},
		{"app", "/api/group%2Fproject", "a"},
		{"app", "/public%2Fadmin", "400"},
		{"app", "//public/admin", "400"},
		{"app", "/public//admin", "400"},
		{"app", "/public//other", "b"},
		{"app", "/public/%2Fadmin", "400"},
		{"app", "/public%2F%2Fadmin", "400"},
		{"app", "/public//x", "400"},
		{"app", "/public/x//", "b"},
	} {
		if got := goes(t, tab, tt.host, tt.path); got != tt.want {
			t.Errorf("%s%s: got %s, want %s", tt.host, tt.path, got, tt.want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"/", "/a%2fb", "/..;/x", "/%2e%2e/", "/a//b", "/\\", "/%00", "/é", "/a%", "/.well-known"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		path, slashes, err := Canonical(raw)
		if err != nil {
			if path != "" {
				t.Fatalf("%q: a path %q beside an error", raw, path)
			}
			return
		}
		again, slashes2, err := Canonical(path)
		if err != nil || again != path || slashes != slashes2 {
			t.Fatalf("%q: canonical %q becomes %q, %v", raw, path, again, err)
		}
		plain, err := url.PathUnescape(path)
		if err != nil {
			t.Fatalf("%q: %q cannot be decoded: %v", raw, path, err)
		}
		if want, err := url.PathUnescape(raw); err != nil || want != plain {
			t.Fatalf("%q means %q, its canonical form %q", raw, want, plain)
		}
		if (&url.URL{Path: plain, RawPath: path}).EscapedPath() != path {
			t.Fatalf("%q: net/url would not send %q as it is", raw, path)
		}
		if strings.ContainsAny(plain, "\x00\r\n\\") {
			t.Fatalf("%q: %q has what must be refused", raw, plain)
		}
		for _, e := range strings.Split(strings.ReplaceAll(plain, "\\", "/"), "/") {
			if e == "." || e == ".." {
				t.Fatalf("%q: element %q came through", raw, e)
			}
		}
		if !slashes && (strings.Contains(path, "//") || strings.Contains(path, "%2F")) {
			t.Fatalf("%q has other readings and does not say so", raw)
		}
	})
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"a.example", "A:80", "[::1]:80", "a..b", "*.x", "a@b", "x:", ".", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		h, ok := Host(raw)
		if !ok {
			return
		}
		if again, ok := Host(h); strings.Contains(h, ":") == false && (!ok || again != h) {
			t.Fatalf("%q: %q becomes %q, %v", raw, h, again, ok)
		}
		if h != "" && (h[0] == '.' || strings.ContainsAny(h, "/@ *")) {
			t.Fatalf("%q became %q", raw, h)
		}
	})
}
