package remote

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/ask"
	"github.com/podway/podway/internal/trace/probe"
)

// proxyHop drops everything.
type proxyHop struct{ hop.Hop }

func (proxyHop) Name() string { return "proxy" }
func (proxyHop) Programmed(context.Context, flow.Flow) (flow.Verdict, error) {
	return flow.Verdict{Action: flow.Dropped, Why: "as programmed"}, nil
}

// kubelet runs podway's commands as the containers would.
type kubelet struct {
	socket string
	mu     sync.Mutex
	ran    []string
}

func (k *kubelet) exec(ctx context.Context, c command, stdin io.Reader, stdout, stderr io.Writer) error {
	k.mu.Lock()
	k.ran = append(k.ran, c.pod.Name+"/"+c.container+" "+strings.Join(c.argv, " "))
	k.mu.Unlock()
	switch {
	case c.pod.Name == "podway-node-old":
		_, _ = io.WriteString(stderr, "Error: unknown command\npodway: unknown command \"ask\"\n")
		return errors.New("exit code 3")
	case c.argv[2] == "ask":
		return ask.Pipe(ctx, k.socket, stdin, stdout)
	}
	return probe.Serve(ctx, "/proc", stdin, stdout)
}

func pod(name, node string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: "uid", Labels: map[string]string{"app.kubernetes.io/name": name[:strings.LastIndexByte(name, '-')]}},
		Spec: corev1.PodSpec{NodeName: node, HostNetwork: true}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
	}
	return p
}

// start makes agents over a cluster of two nodes, of which n2 runs a podway that cannot be asked.
func start(t *testing.T) (*Agents, *kubelet) {
	t.Helper()
	k := &kubelet{socket: filepath.Join(t.TempDir(), "a.sock")}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ask.Serve(ctx, k.socket, ask.Server{Hops: []hop.Hop{proxyHop{}}, Proc: "/proc"})
	}()
	t.Cleanup(func() { stop(); <-done })
	for i := 0; i < 200; i++ {
		if _, err := os.Stat(k.socket); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	c := &Cluster{exec: k.exec, Clients: cluster.Clients{Typed: fake.NewClientset(
		pod("podway-node-a", "n1", "probe", "node"), pod("podway-node-old", "n2", "node"), pod("web-x", "n3"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
	)}}
	s, missing, err := c.Load(ctx)
	if err != nil || len(missing) > 0 {
		t.Fatalf("load: %v %v", missing, err)
	}
	a := c.Agents(ctx, s)
	t.Cleanup(a.Close)
	return a, k
}

func TestANodeIsAskedByExecOnceForManyQuestions(t *testing.T) {
	a, k := start(t)
	for range 3 {
		v, err := a.Verdict(t.Context(), "proxy", "n1", flow.Flow{})
		if err != nil || v.Action != flow.Dropped || v.Why != "as programmed" {
			t.Fatalf("got %v %v", v, err)
		}
	}
	if st, err := a.status(t.Context(), "n1"); err != nil || !slices.Equal(st.Hops, []string{"proxy"}) {
		t.Errorf("status: %+v %v", st, err)
	}
	if want := []string{"podway-node-a/node /podway agent ask"}; !slices.Equal(k.ran, want) {
		t.Errorf("ran %q, want %q", k.ran, want)
	}
}

func TestEveryWayOfNotKnowingHasItsError(t *testing.T) {
	a, _ := start(t)
	if _, err := a.Verdict(t.Context(), "dns", "n1", flow.Flow{}); !errors.Is(err, ask.ErrOff) || errors.Is(err, trace.ErrAgentDown) {
		t.Errorf("a hop that is off: %v", err)
	}
	if _, err := a.Verdict(t.Context(), "proxy", "n2", flow.Flow{}); !errors.Is(err, trace.ErrAgentDown) || !strings.Contains(err.Error(), `unknown command "ask"`) {
		t.Errorf("a podway that cannot be asked: %v", err)
	}
	if _, err := a.Verdict(t.Context(), "proxy", "n3", flow.Flow{}); !errors.Is(err, trace.ErrAgentDown) {
		t.Errorf("a node without podway: %v", err)
	}
	if _, err := a.Verdict(t.Context(), "ingress", "n1", flow.Flow{}); !errors.Is(err, trace.ErrNotChecked) {
		t.Errorf("a cluster without the ingress: %v", err)
	}
	if _, err := a.sockets(t.Context(), &model.Pod{Node: "n1", UID: "not-here"}); err == nil || errors.Is(err, trace.ErrAgentDown) {
		t.Errorf("a Pod without process is no dead agent: %v", err)
	}
}

func TestProbesAreSentFromTheProbeContainerOrFromHere(t *testing.T) {
	a, k := start(t)
	r := probe.Request{Kind: probe.Conn, Dst: netip.MustParseAddrPort("127.0.0.1:1")}
	got, err := a.probe(t.Context(), trace.Origin{Node: "n1"}, r)
	if err != nil || got.Result != probe.Refused {
		t.Errorf("from the node: %+v %v", got, err)
	}
	if got, err = a.probe(t.Context(), trace.Origin{Node: "n1", PodUID: "not-here"}, r); err != nil || got.Result != probe.Failed {
		t.Errorf("from a Pod that is not there: %+v %v", got, err)
	}
	if got, err = a.probe(t.Context(), trace.Origin{}, r); err != nil || got.Result != probe.Refused {
		t.Errorf("from here: %+v %v", got, err)
	}
	if want := []string{"podway-node-a/probe /podway agent probe"}; !slices.Equal(k.ran, want) {
		t.Errorf("ran %q, want %q", k.ran, want)
	}
}

const kubeconfig = `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a, namespace: shop}}],
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: a, user: {}}]}`

func TestTheNamespaceIsTheContextsUnlessGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Connect(Options{Kubeconfig: path})
	if err != nil || c.Namespace != "shop" {
		t.Errorf("got %+v %v", c, err)
	}
	if c, err = Connect(Options{Kubeconfig: path, Namespace: "x"}); err != nil || c.Namespace != "x" {
		t.Errorf("got %+v %v", c, err)
	}
	if _, err = Connect(Options{Kubeconfig: path, Context: "none"}); err == nil {
		t.Error("a context that does not exist must be an error")
	}
	if _, err = Connect(Options{Kubeconfig: path + ".none"}); err == nil {
		t.Error("a kubeconfig that does not exist must be an error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := c.Load(ctx); err == nil {
		t.Error("an API server that does not answer must be an error")
	}
}

func TestTheClusterSaysItsRanges(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "podway"},
		Data: map[string]string{"PODWAY_CLUSTER_DOMAIN": "corp.local", "PODWAY_SERVICE_CIDRS": "10.96.0.0/16, fd00::/112", "PODWAY_CLUSTER_CIDRS": "10.244.0.0/16"}}
	s := (&Cluster{Clients: cluster.Clients{Typed: fake.NewClientset(cm)}}).Settings(t.Context())
	if s.Domain != "corp.local" || len(s.ServiceCIDRs) != 2 || s.ServiceCIDRs[1].String() != "fd00::/112" || len(s.ClusterCIDRs) != 1 {
		t.Errorf("got %+v", s)
	}
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/12"}}}
	s = (&Cluster{Clients: cluster.Clients{Typed: fake.NewClientset(cidr)}}).Settings(t.Context())
	if s.Domain != "" || len(s.ServiceCIDRs) != 1 || s.ServiceCIDRs[0].String() != "10.0.0.0/12" {
		t.Errorf("without podway: got %+v", s)
	}
}

func TestAMachineWithoutAWayToTheNodesProbesNothing(t *testing.T) {
	b := model.NewBuilder(nil)
	b.Put(&model.Node{Name: "n1", Addrs: []netip.Addr{netip.MustParseAddr("198.18.77.11")}})
	far := b.Snapshot(time.Unix(0, 0))
	c := &Cluster{server: "https://127.0.0.1:16443"}
	a := c.Agents(t.Context(), far)
	defer a.Close()
	if _, err := a.probe(t.Context(), trace.Origin{}, probe.Request{Kind: probe.Conn, Dst: netip.MustParseAddrPort("198.18.77.11:80")}); !errors.Is(err, trace.ErrNotChecked) || !strings.Contains(err.Error(), "podway exec client") {
		t.Errorf("got %v", err)
	}
	c.server = "https://198.18.77.1:6443"
	if c.noWay(far) {
		t.Error("an API server elsewhere says nothing of the way to the nodes")
	}
}

func TestALongErrorKeepsItsEnds(t *testing.T) {
	long := errors.New("exec in container: " + strings.Repeat("x", 900) + ": no such task: unknown")
	if got := shorter(long).Error(); len(got) > 200 || !strings.HasPrefix(got, "exec in container") || !strings.HasSuffix(got, "no such task: unknown") {
		t.Errorf("%d characters: %s", len(got), got)
	}
}
