package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/corefile"
)

func runDNS(ctx context.Context, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"dns"}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = exitCode(root.ExecuteContext(ctx), &stderr)
	return code, stdout.String(), stderr.String()
}

func file(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckSaysWhatACorefileHas(t *testing.T) {
	path := file(t, filepath.Join(t.TempDir(), "Corefile"), corefile.Kubeadm)
	code, out, errs := runDNS(t.Context(), "--check", "--conf", path)
	for _, want := range []string{path + ":1: serves .:53\n", path + ":20: loop is accepted and needs nothing: ", "valid\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code != ExitOK || errs != "" {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, out, _ := runDNS(t.Context(), "--check", "--cluster-domain", "other.test"); code != ExitOK || !strings.Contains(out, "the Corefile of kubeadm:1: serves .:53") {
		t.Errorf("code %d, %s", code, out)
	}
	file(t, path, ". {\n forwrad . 1.1.1.1\n dnssec\n}\n")
	code, _, errs = runDNS(t.Context(), "--check", "--conf", path)
	if code != ExitBroken || !strings.Contains(errs, path+":2: forwrad: no such plugin (did you mean forward?)") || !strings.Contains(errs, path+":3: dnssec: not supported") {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs = runDNS(t.Context(), "--check", "--conf", path+"x"); code != ExitBroken || !strings.Contains(errs, "no such file") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// free are ports that nobody has, for UDP and TCP.
func free(t *testing.T, n int) (out []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

const dnsObjects = `apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{port: 80}]}
`

// lookup is the address that a name has, or what came instead.
func lookup(addr, name string) string {
	a, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), addr)
	switch {
	case err != nil:
		return err.Error()
	case len(a.Answer) == 1:
		return strings.TrimPrefix(a.Answer[0].String(), a.Answer[0].Header().String())
	}
	return dns.RcodeToString[a.Rcode]
}

// becomes waits until f returns want.
func becomes(t *testing.T, within time.Duration, want string, f func() string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = f(); got == want {
			return
		}
	}
	t.Fatalf("got %q, want %q within %s", got, want, within)
}

func TestAServerAloneWithAFolderAndACorefile(t *testing.T) {
	dir, p := t.TempDir(), free(t, 4)
	objects := file(t, filepath.Join(dir, "objects.yaml"), dnsObjects)
	conf := func(host string) string {
		return fmt.Sprintf(`.:%d {
    bind 127.0.0.1
    health 127.0.0.1:%d {
        lameduck 700ms
    }
    ready 127.0.0.1:%d
    prometheus 127.0.0.1:%d
    hosts none {
        %s host.example
        fallthrough
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa
    reload
}
`, p[0], p[1], p[2], p[3], host)
	}
	path := file(t, filepath.Join(dir, "Corefile"), conf("10.0.0.1"))
	get := func(port int, what string) string {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", port, what))
		if err != nil {
			return "nobody"
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return fmt.Sprint(r.StatusCode, " ", string(b))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan string, 1)
	go func() {
		code, out, errs := runDNS(ctx, "--objects", objects, "--conf", path)
		done <- fmt.Sprint(code, out, errs)
	}()
	addr := fmt.Sprint("127.0.0.1:", p[0])
	becomes(t, 10*time.Second, "200 OK", func() string { return get(p[2], "ready") })
	if got := lookup(addr, "cart.shop.svc.cluster.local."); got != "10.96.0.7" {
		t.Errorf("a Service: %s", got)
	}
	if got := get(p[1], "health"); got != "200 OK" {
		t.Errorf("health: %s", got)
	}
	if got := get(p[3], "metrics"); !strings.Contains(got, "coredns_dns_requests_total{") || !strings.Contains(got, "coredns_reload_failed_total 0") {
		t.Errorf("metrics: %.300s", got)
	}
	file(t, path, conf("10.0.0.2"))
	becomes(t, 3*time.Second, "10.0.0.2", func() string { return lookup(addr, "host.example.") })
	file(t, path, "nonsense")
	becomes(t, 3*time.Second, "true", func() string {
		return fmt.Sprint(strings.Contains(get(p[3], "metrics"), "coredns_reload_failed_total 1"))
	})
	if got := lookup(addr, "host.example."); got != "10.0.0.2" {
		t.Errorf("after an invalid change: %s", got)
	}
	file(t, objects, strings.ReplaceAll(dnsObjects, "10.96.0.7", "10.96.0.99"))
	becomes(t, 3*time.Second, "10.96.0.99", func() string { return lookup(addr, "cart.shop.svc.cluster.local.") })
	began := time.Now()
	stop()
	becomes(t, time.Second, "503 dns: the server is closing\n", func() string { return get(p[2], "ready") })
	if got := lookup(addr, "cart.shop.svc.cluster.local."); got != "10.96.0.99" || get(p[1], "health") != "200 OK" {
		t.Errorf("while it ends: %s", got)
	}
	if got := <-done; !strings.HasPrefix(got, "0") || time.Since(began) < 700*time.Millisecond {
		t.Errorf("after %s: %s", time.Since(began), got)
	}
	if got := lookup(addr, "cart.shop.svc.cluster.local."); got == "10.96.0.99" {
		t.Error("answers after its end")
	}
}

func TestAServerAloneSaysWhyItCannotStart(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	objects := file(t, filepath.Join(dir, "objects.yaml"), dnsObjects)
	for _, c := range []struct{ sentence, text, want string }{
		{"a port that is taken", fmt.Sprintf(".:%d {\n bind 127.0.0.1\n hosts\n}\n", port), "address already in use"},
		{"a zone file that is not there", ". {\n bind 127.0.0.1\n file /nowhere/db example.org\n}\n", "Corefile:3: file: stat /nowhere/db: no such file"},
		{"a health address that is taken", fmt.Sprintf(".:%d {\n bind 127.0.0.1\n hosts\n health 127.0.0.1:%d\n}\n", free(t, 1)[0], port), "serve health on"},
	} {
		path := file(t, filepath.Join(dir, "Corefile"), c.text)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		code, _, errs := runDNS(ctx, "--objects", objects, "--conf", path)
		stop()
		if code != ExitBroken || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, %s", c.sentence, code, errs)
		}
	}
	path := file(t, filepath.Join(dir, "Corefile"), ". {\n bind 127.0.0.1\n hosts\n}\n")
	if code, _, errs := runDNS(t.Context(), "--conf", path, "--cluster-dns", "x"); code != ExitUsage || !strings.Contains(errs, "--cluster-dns") {
		t.Errorf("code %d, %s", code, errs)
	}
}
