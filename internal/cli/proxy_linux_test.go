package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podway/podway/internal/nettest"
)

const asPodway = "PODWAY_CLI_TEST_MAIN"

// TestMain is podway itself when a test started this program as such.
func TestMain(m *testing.M) {
	if os.Getenv(asPodway) != "" {
		ended := make(chan struct{})
		go func() { // the test that started it is gone
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(ended)
		}()
		go func() {
			<-ended
			os.Exit(0)
		}()
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// apiServer answers lists and watches of a few fixed objects, and keeps the Events that are written.
type apiServer struct {
	mu      sync.Mutex
	objects map[string][]map[string]any // path -> items
	watches map[string][]chan map[string]any
	events  []string
	version int
}

func (s *apiServer) put(path string, obj map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	obj["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(s.version)
	kind := "ADDED"
	for i, old := range s.objects[path] {
		if fmt.Sprint(old["metadata"].(map[string]any)["name"]) == obj["metadata"].(map[string]any)["name"] {
			s.objects[path] = slices.Delete(slices.Clone(s.objects[path]), i, i+1)
			kind = "MODIFIED"
			break
		}
	}
	s.objects[path] = append(s.objects[path], obj)
	for _, w := range s.watches[path] {
		w <- map[string]any{"type": kind, "object": obj}
	}
}

var kinds = map[string][2]string{
	"/api/v1/services": {"v1", "ServiceList"}, "/api/v1/nodes": {"v1", "NodeList"},
	"/apis/discovery.k8s.io/v1/endpointslices": {"discovery.k8s.io/v1", "EndpointSliceList"},
	"/apis/networking.k8s.io/v1/servicecidrs":  {"networking.k8s.io/v1", "ServiceCIDRList"},
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/events") {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.events = append(s.events, string(b))
		s.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e","namespace":"default"}}`)
		return
	}
	k, ok := kinds[r.URL.Path]
	q := r.URL.Query()
	switch {
	case !ok && strings.HasPrefix(r.URL.Path, "/apis/networking.k8s.io/v1"):
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"networking.k8s.io/v1","resources":[{"name":"servicecidrs","kind":"ServiceCIDR","verbs":["list","watch"]}]}`)
	case !ok || q.Get("sendInitialEvents") == "true":
		code := http.StatusNotFound
		if ok {
			code = http.StatusUnprocessableEntity
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":%d,"message":"not here"}`, code)
	case q.Get("watch") == "true":
		s.watch(w, r)
	default:
		s.mu.Lock()
		list := map[string]any{"apiVersion": k[0], "kind": k[1], "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version)}, "items": s.objects[r.URL.Path]}
		b, _ := json.Marshal(list)
		s.mu.Unlock()
		_, _ = w.Write(b)
	}
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	ch := make(chan map[string]any, 100)
	s.mu.Lock()
	s.watches[r.URL.Path] = append(s.watches[r.URL.Path], ch)
	s.mu.Unlock()
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-ch:
			b, _ := json.Marshal(e)
			_, _ = w.Write(append(b, '\n'))
			w.(http.Flusher).Flush()
		}
	}
}

type obj = map[string]any

// aNode is a node of a nettest world with an API server on it and the Pods a1 and client.
func aNode(t *testing.T) (*apiServer, *nettest.Host, *nettest.Host, string) {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.NFT)
	w, err := nettest.New()
	must(t, err)
	t.Cleanup(func() { w.Close() })
	node, err := w.AddNode("node-a", 0)
	must(t, err)
	pod, err := w.AddPod(node, "a1", netip.MustParseAddr("10.244.1.1"))
	must(t, err)
	_, err = pod.Serve("a1", nettest.Port{Proto: "tcp", Number: 8080})
	must(t, err)
	client, err := w.AddPod(node, "client", netip.MustParseAddr("10.244.1.9"))
	must(t, err)
	api := &apiServer{objects: map[string][]map[string]any{}, watches: map[string][]chan map[string]any{}}
	var l net.Listener
	must(t, node.Do(func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:6443")
		return err
	}))
	srv := &http.Server{Handler: api}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	api.put("/api/v1/nodes", obj{"apiVersion": "v1", "kind": "Node", "metadata": obj{"name": "node-a"}, "spec": obj{"podCIDRs": []string{"10.244.1.0/24"}},
		"status": obj{"addresses": []obj{{"type": "InternalIP", "address": node.Addrs[0].String()}}}})
	api.put("/api/v1/services", obj{"metadata": obj{"name": "web", "namespace": "shop"}, "spec": obj{"type": "NodePort", "clusterIP": "10.96.0.7",
		"clusterIPs": []string{"10.96.0.7"}, "ipFamilies": []string{"IPv4"}, "ports": []obj{{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080, "targetPort": 8080}}}})
	api.put("/apis/discovery.k8s.io/v1/endpointslices", obj{"metadata": obj{"name": "web-1", "namespace": "shop", "labels": obj{"kubernetes.io/service-name": "web"}},
		"addressType": "IPv4", "ports": []obj{{"name": "http", "protocol": "TCP", "port": 8080}},
		"endpoints": []obj{{"addresses": []string{"10.244.1.1"}, "conditions": obj{"ready": true}, "nodeName": "node-a"}}})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:6443"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"current-context":"c","users":[{"name":"u","user":{}}]}`), 0o600))
	return api, node, client, kubeconfig
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get asks an address of the node itself.
func get(node *nettest.Host, url string) (code int, body string) {
	_ = node.Do(func() error {
		c, err := net.DialTimeout("tcp", strings.Split(strings.TrimPrefix(url, "http://"), "/")[0], 2*time.Second)
		if err != nil {
			body = err.Error()
			return err
		}
		defer c.Close()
		r, err := (&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}}).Get(url)
		if err != nil {
			body = err.Error()
			return err
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		code, body = r.StatusCode, string(b)
		return nil
	})
	return code, body
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Errorf("%s: not within 20 s", what)
}

func TestPodwayProxyStandsInForKubeProxy(t *testing.T) {
	api, node, client, kubeconfig := aNode(t)
	config := filepath.Join(t.TempDir(), "config.conf")
	must(t, os.WriteFile(config, []byte("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\nhostnameOverride: node-a\nclusterCIDR: 10.244.0.0/16\n"+
		"enableProfiling: true\nportRange: 1-2\nclientConnection: {kubeconfig: "+kubeconfig+"}\nconntrack: {maxPerCore: 0}\n"), 0o600))
	p, err := node.Start(t.Context(), []string{"/proc/self/exe", "proxy", "--config", config}, asPodway+"=1", "PODWAY_PROXY_MODE=iptables")
	must(t, err)
	go io.Copy(io.Discard, p.Stdout)
	ended := false
	stop := func() {
		if !ended {
			ended = true
			_ = p.Stop(5 * time.Second)
		}
	}
	t.Cleanup(stop)
	eventually(t, "ready", func() bool { code, _ := get(node, "http://127.0.0.1:10256/readyz"); return code == 200 })
	if r := client.Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: netip.MustParseAddrPort("10.96.0.7:80"), Timeout: 5 * time.Second}); r.Who != "a1" {
		t.Errorf("a Pod to the ClusterIP: %+v", r)
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:10256/healthz": `"nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":`, "http://127.0.0.1:10256/livez": `"healthy":true`,
		"http://127.0.0.1:10249/proxyMode": "nftables", "http://127.0.0.1:10249/healthz": "ok", "http://127.0.0.1:10249/configz": `"clusterCIDR":"10.244.0.0/16"`,
		"http://127.0.0.1:10249/debug/pprof/": "goroutine",
	} {
		if code, body := get(node, url); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s; want %s", url, code, body, want)
		}
	}
	_, metrics := get(node, "http://127.0.0.1:10249/metrics")
	for _, name := range []string{"sync_proxy_rules_duration_seconds_count", "sync_full_proxy_rules_duration_seconds_bucket", "sync_proxy_rules_last_timestamp_seconds",
		"sync_proxy_rules_nftables_sync_failures_total", "sync_proxy_rules_nftables_cleanup_failures_total", "proxy_healthz_total{code=\"200\"}", "conntrack_reconciler_deleted_entries_total"} {
		if !regexp.MustCompile("(?m)^kubeproxy_" + regexp.QuoteMeta(name)).MatchString(metrics) {
			t.Errorf("/metrics lacks kubeproxy_%s", name)
		}
	}
	eventually(t, "the Event of the start", func() bool {
		api.mu.Lock()
		defer api.mu.Unlock()
		return slices.ContainsFunc(api.events, func(e string) bool { return strings.Contains(e, "Starting") && strings.Contains(e, "node-a") })
	})
	api.put("/api/v1/nodes", obj{"apiVersion": "v1", "kind": "Node", "metadata": obj{"name": "node-a"}, "spec": obj{"podCIDRs": []string{"10.244.1.0/24"},
		"taints": []obj{{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}}}, "status": obj{"addresses": []obj{{"type": "InternalIP", "address": node.Addrs[0].String()}}}})
	eventually(t, "a node that goes", func() bool { code, _ := get(node, "http://127.0.0.1:10256/healthz"); return code == 503 })
	if code, _ := get(node, "http://127.0.0.1:10256/livez"); code != 200 {
		t.Errorf("livez of a node that goes: %d", code)
	}
	stop()
	if log := p.Stderr(); !strings.Contains(log, "key=portRange") || !strings.Contains(log, "service proxy starts") {
		t.Errorf("the log:\n%s", log)
	}
	var out bytes.Buffer
	must(t, node.Do(func() error {
		q, err := node.Start(t.Context(), []string{"/proc/self/exe", "proxy", "--cleanup"}, asPodway+"=1")
		if err != nil {
			return err
		}
		_, err = io.Copy(&out, q.Stdout)
		return err
	}))
	if !strings.Contains(out.String(), "removed  proxy nftables: table ip podway-proxy") {
		t.Errorf("cleanup said %q", out.String())
	}
}

func TestAPortThatIsTakenEndsAProxyThatShallFailHard(t *testing.T) {
	api, node, _, kubeconfig := aNode(t)
	var l net.Listener
	must(t, node.Do(func() (err error) { l, err = net.Listen("tcp", "0.0.0.0:10256"); return err }))
	defer l.Close()
	p, err := node.Start(t.Context(), []string{"/proc/self/exe", "proxy", "--kubeconfig", kubeconfig, "--hostname-override=node-a", "--bind-address-hard-fail", "--conntrack-max-per-core=0"}, asPodway+"=1")
	must(t, err)
	_, _ = io.Copy(io.Discard, p.Stdout) // it ends by itself
	if err := p.Stop(5 * time.Second); err == nil || !strings.Contains(p.Stderr(), "healthz on 0.0.0.0:10256") {
		t.Errorf("it ended with %v:\n%s", err, p.Stderr())
	}
	_ = api
}
