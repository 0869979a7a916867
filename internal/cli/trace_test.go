package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/trace"
)

const traced = `
{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDRs: [10.244.1.0/24]}, status: {addresses: [{type: InternalIP, address: 172.18.0.1}], conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: cart, namespace: shop}, spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], selector: {app: Cart}, ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: pay, namespace: shop}, spec: {clusterIP: 10.96.0.8, clusterIPs: [10.96.0.8], selector: {app: cart}, ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: cart-1, namespace: shop, labels: {app: cart}}, spec: {nodeName: n1, containers: [{name: c}]}, status: {phase: Running, podIPs: [{ip: 10.244.1.7}], conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {nodeName: n1, containers: [{name: c}]}, status: {phase: Running, podIPs: [{ip: 10.244.1.5}], conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: pay-x, namespace: shop, labels: {kubernetes.io/service-name: pay}}, addressType: IPv4, ports: [{name: "", port: 8080, protocol: TCP}], endpoints: [{addresses: [10.244.1.7], conditions: {ready: true}, nodeName: n1, targetRef: {kind: Pod, namespace: shop, name: cart-1}}]}
`

func tracedFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(traced), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Main(args, &o, &e)
	return code, o.String(), e.String()
}

func TestTraceOverFilesTellsTheWayOrTheCause(t *testing.T) {
	dir := tracedFolder(t)
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"pod/web", "http://pay/health"}, ExitOK, []string{"predicted  from the objects alone", "from    pod shop/web (10.244.1.5) on node n1", "result  reaches Pod shop/cart-1",
			" 1 name     predicted   pay -> pay.shop.svc.cluster.local -> A 10.96.0.8", " 2 service  predicted   Service shop/pay 80/TCP -> 10.244.1.7:8080"}},
		{[]string{"pod/web", "--to", "cart:80"}, ExitBroken, []string{" 2 service  BROKEN      Service shop/cart 80/TCP: refused, no Pod matches", "cause   PW-1201 Service shop/cart: ", "        - app: Cart\n        + app: cart\n"}},
		{[]string{"pay:80"}, ExitOK, []string{"note    no --from: a ready Pod of namespace shop was taken"}},
		{[]string{"--from", "node/n1", "--to", "svc/pay"}, ExitOK, []string{"from    node n1 (172.18.0.1)"}},
		{[]string{"pod/web", "pya"}, ExitBroken, []string{"cause   PW-1001 ", "fix     use pay\n"}},
	} {
		code, out, errs := run(append([]string{"trace", "-n", "shop", "-f", dir}, c.args...)...)
		if code != c.code || errs != "" {
			t.Errorf("%v: exit %d, want %d; %s", c.args, code, c.code, errs)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %q is not in:\n%s", c.args, want, out)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%v: colours in what is no terminal", c.args)
		}
	}
}

func TestTraceAsJSONHasTheVerdictsAndTheCode(t *testing.T) {
	code, out, _ := run("trace", "-n", "shop", "-f", tracedFolder(t), "-o", "json", "pod/web", "cart:80")
	var r trace.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitBroken {
		t.Fatalf("exit %d: %v", code, err)
	}
	if r.SchemaVersion != trace.SchemaVersion || r.Finding == nil || r.Finding.Code != flow.SelectorNoPod || r.Result != "broken" || len(r.Steps) != 2 || r.Steps[1].Declared.Action != flow.Refused {
		t.Errorf("got %s", out)
	}
}

func TestWrongArgumentsOfTraceAreUsage(t *testing.T) {
	dir := tracedFolder(t)
	for _, args := range [][]string{
		{}, {"a", "b", "c"}, {"pod/web", "ftp://x"}, {"pod/none", "pay:80"}, {"deploy/none", "pay:80"}, {"-o", "xml", "pay:80"},
		{"--probe", "pay:80"}, {"--from", "pod/web", "--to", "a:1", "b:1"}, {"--resolve", "x", "pay:80"}, {"--no-such-flag"},
	} {
		if code, out, errs := run(append([]string{"trace", "-n", "shop", "-f", dir}, args...)...); code != ExitUsage || errs == "" || out != "" {
			t.Errorf("%v: exit %d, want %d; stdout %q, stderr %q", args, code, ExitUsage, out, errs)
		}
	}
	if code, _, _ := run("trace", "-f", dir+"/none", "pay:80"); code != ExitUsage {
		t.Errorf("a folder that does not exist: exit %d", code)
	}
}

func TestAClusterThatDoesNotAnswerIsUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	config := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: a, user: {}}]}`
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"trace", "--kubeconfig", path, "pay:80"}, {"doctor", "--kubeconfig", path}} {
		if code, _, errs := run(args...); code != ExitUnknown || !strings.Contains(errs, "connection refused") {
			t.Errorf("%v: exit %d, want %d; %s", args, code, ExitUnknown, errs)
		}
	}
}

func TestDoctorOverFiles(t *testing.T) {
	dir := tracedFolder(t)
	code, out, errs := run("doctor", "-f", dir)
	if code != ExitBroken || !strings.Contains(out, "E PW-1201 Service shop/cart: ") || !strings.Contains(out, "i checked 2 Services, 0 Ingresses, 1 node") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, _ = run("doctor", "-f", dir, "-o", "json")
	var r struct {
		Causes []struct {
			Code flow.Code
			Hits []string `json:"hits"`
		} `json:"causes"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitBroken || len(r.Causes) != 1 || r.Causes[0].Code != flow.SelectorNoPod || len(r.Causes[0].Hits) != 1 {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}

func TestSeveralFilesAreOneClusterAndNoneIsSaid(t *testing.T) {
	dir := t.TempDir()
	docs := strings.Split(traced, "---\n")
	var args []string
	for i, doc := range docs {
		path := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-f", path)
	}
	if code, out, errs := run(append([]string{"doctor"}, args...)...); code != ExitBroken || !strings.Contains(out, "checked 2 Services, 0 Ingresses, 1 node:") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	empty := filepath.Join(dir, "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run("doctor", "-f", empty); code != ExitUnknown || out != "" || !strings.Contains(errs, "there is nothing to look at in "+empty) {
		t.Errorf("an empty file: exit %d: %s%s", code, out, errs)
	}
}

func TestCommandsThatNeedRootSayItFirst(t *testing.T) {
	euid = func() int { return 1000 }
	t.Cleanup(func() { euid = os.Geteuid })
	for _, args := range [][]string{{"status"}, {"exec", "node-1", "--", "true"}, {"demo"}, {"image", "load", "x.tar"}, {"cleanup", "--dry-run"}} {
		if code, _, errs := run(args...); code != ExitUnknown || !strings.Contains(errs, "needs root") {
			t.Errorf("podway %v: exit %d, %s", args, code, errs)
		}
	}
	if code, out, _ := run("version"); code != ExitOK || out != "podway "+version+"\n" {
		t.Errorf("version: exit %d, %q", code, out)
	}
}

func TestKubectlHelpNeedsNoCluster(t *testing.T) {
	t.Setenv("PODWAY_LAB_DIR", t.TempDir())
	if code, out, errs := run("kubectl", "--help"); code != ExitOK || !strings.Contains(out, "$KUBECONFIG") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestWithoutAnyClusterTheWaysToNameOneAreSaid(t *testing.T) {
	t.Setenv("PODWAY_LAB_DIR", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	code, _, errs := run("doctor")
	if code != ExitUnknown || strings.Contains(errs, "KUBERNETES_MASTER") || !strings.Contains(errs, "look at files with -f") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestTheShellIsToldTheValuesOfFlags(t *testing.T) {
	t.Setenv("PODWAY_LAB_DIR", t.TempDir())
	for says, args := range map[string][]string{
		"kernel": {"scenario", "run", "--level", ""}, "none": {"up", "--networking", ""}, "ipvs": {"demo", "--proxy-mode", ""},
		"json": {"doctor", "-o", ""}, "control-plane": {"exec", ""},
	} {
		if code, out, _ := run(append([]string{"__complete"}, args...)...); code != ExitOK || !strings.Contains(out, says+"\n") {
			t.Errorf("%v: exit %d, %q, want %s", args, code, out, says)
		}
	}
}

func TestWhatTheUserGotWrongIsNamedAndExitsWith3(t *testing.T) {
	dir := tracedFolder(t)
	for says, args := range map[string][]string{
		`unknown command "trcae"; did you mean trace?`: {"trcae"},
		"podway exec node-1 -- ip route":               {"exec", "node-1"},
		"--nodes 0: want 1 to 80":                      {"up", "--nodes", "0"},
		"--nodes 1: want 2 to 80":                      {"demo", "--nodes", "1"},
		`unknown command "extra" for "podway up"`:      {"up", "extra"},
		"requires at least 1 arg(s)":                   {"scenario", "run"},
		`unknown command "foo"`:                        {"completion", "foo"},
		`unknown command "lod"`:                        {"image", "lod"},
		`--resolve "foo": want an IP address`:          {"trace", "-f", dir, "--resolve", "foo", "pay:80"},
		"there is no node n9":                          {"trace", "-n", "shop", "-f", dir, "--from", "outside", "--via", "n9", "--to", "svc/pay"},
	} {
		if code, _, errs := run(args...); code != ExitUsage || !strings.Contains(errs, says) {
			t.Errorf("podway %s: exit %d, %q; want 3 and %q", strings.Join(args, " "), code, errs, says)
		}
	}
}
