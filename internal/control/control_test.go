package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control/controltest"
	"github.com/podway/podway/internal/model"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// replica is one process that runs the loops.
type replica struct {
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	leading bool
}

func (r *replica) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leading
}

func start(t *testing.T, name string, o Options) *replica {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &replica{stop: stop, done: make(chan error, 1)}
	o.Identity, o.Log = name, quiet
	o.OnLeading = func(on bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leading = on
	}
	go func() { r.done <- Run(ctx, o) }()
	return r
}

func (r *replica) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run ends with %v", err)
	}
	if r.leads() {
		t.Error("it still says that it leads")
	}
}

func watcher(s *controltest.Server, dyn *dynamicfake.FakeDynamicClient) Source {
	return &cluster.Watcher{Clients: cluster.Clients{Typed: s, Dynamic: dyn}, Log: quiet,
		Kinds: []cluster.Kind{cluster.Services, cluster.EndpointSlices, cluster.Nodes, cluster.Pods, cluster.Ingresses, cluster.IngressClasses, cluster.Pools}}
}

// withPools is a server and a dynamic client that know AddressPools, with one in it.
func withPools() (*controltest.Server, *dynamicfake.FakeDynamicClient) {
	s := controltest.New()
	s.Resources = []*metav1.APIResourceList{{GroupVersion: "podway.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "addresspools"}}}}
	pool := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "podway.io/v1alpha1", "kind": "AddressPool",
		"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"addresses": []any{"192.0.2.1-192.0.2.9"}}}}
	gvr := schema.GroupVersionResource{Group: "podway.io", Version: "v1alpha1", Resource: "addresspools"}
	return s, dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{gvr: "AddressPoolList"}, pool)
}

func shop(t *testing.T, s *controltest.Server) {
	t.Helper()
	ctx := context.Background()
	_, err1 := s.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	_, err2 := s.CoreV1().Services("shop").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.7", IPFamilies: []corev1.IPFamily{"IPv4"},
			Selector: map[string]string{"app": "cart"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, Protocol: "TCP", TargetPort: intstr.FromInt32(8080)}}}}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, pod(s, "cart-1", "10.244.0.1")); err != nil {
		t.Fatal(err)
	}
}

func pod(s *controltest.Server, name, ip string) error {
	_, err := s.CoreV1().Pods("shop").Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "cart"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}, metav1.CreateOptions{})
	return err
}

// sees is the addresses in the Service's slices and in its load balancer status.
func sees(t *testing.T, s *controltest.Server) string {
	t.Helper()
	var out []string
	slicesNow, err := s.DiscoveryV1().EndpointSlices("shop").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, sl := range slicesNow.Items {
		for _, e := range sl.Endpoints {
			out = append(out, e.Addresses...)
		}
	}
	slices.Sort(out)
	svc, err := s.CoreV1().Services("shop").Get(context.Background(), "cart", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		out = append(out, "lb "+in.IP)
	}
	return strings.Join(out, " ")
}

func TestTheLoopsWorkFromTheAPIToTheAPIAndTheNextLeaderGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dyn := withPools()
		shop(t, s)
		options := func() Options {
			return Options{Client: s, Dynamic: dyn, Source: watcher(s, dyn), Loops: AllLoops}
		}
		reg := prometheus.NewRegistry()
		first := options()
		first.Metrics = reg
		a := start(t, "a", first)
		time.Sleep(5 * time.Second)
		b := start(t, "b", options())
		time.Sleep(5 * time.Second)
		if !a.leads() || b.leads() {
			t.Fatalf("a leads: %v, b leads: %v", a.leads(), b.leads())
		}
		if got := sees(t, s); got != "10.244.0.1 lb 192.0.2.1" {
			t.Errorf("got %s", got)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(wantMetrics), "podway_control_leading", "podway_endpointslice_writes_total",
			"podway_loadbalancer_pool_available_addresses"); err != nil {
			t.Error(err)
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v %v", problems, err)
		}
		a.end(t)
		if err := pod(s, "cart-2", "10.244.0.2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryPeriod * 2)
		if !b.leads() {
			t.Error("the Lease was not released")
		}
		time.Sleep(time.Second)
		if got := sees(t, s); got != "10.244.0.1 10.244.0.2 lb 192.0.2.1" {
			t.Errorf("under the next leader %s", got)
		}
		b.end(t)
		dyn.ClearActions()
	})
}

func TestALeaderThatCannotRenewStopsItsLoopsBeforeAnotherMayLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dyn := withPools()
		shop(t, s)
		var mu sync.Mutex
		cut := false
		s.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			return cut, nil, errors.New("no way to the API server")
		})
		r := start(t, "a", Options{Client: s, Dynamic: dyn, Source: watcher(s, dyn), Loops: Loops{EndpointSlice: true}})
		time.Sleep(5 * time.Second)
		if !r.leads() {
			t.Fatal("it does not lead")
		}
		mu.Lock()
		cut = true
		mu.Unlock()
		time.Sleep(leaseDuration - time.Millisecond)
		if r.leads() {
			t.Error("it leads though its Lease has run out")
		}
		mu.Lock()
		cut = false
		mu.Unlock()
		time.Sleep(2 * leaseDuration)
		if !r.leads() {
			t.Error("it does not lead again")
		}
		if err := pod(s, "cart-2", "10.244.0.2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := sees(t, s); got != "10.244.0.1 10.244.0.2" {
			t.Errorf("got %s", got)
		}
		r.end(t)
	})
}

const wantMetrics = `
# HELP podway_control_leading 1 while this process runs the control loops.
# TYPE podway_control_leading gauge
podway_control_leading 1
# HELP podway_endpointslice_writes_total EndpointSlices and Endpoints written.
# TYPE podway_endpointslice_writes_total counter
podway_endpointslice_writes_total{resource="endpoints",verb="create"} 1
podway_endpointslice_writes_total{resource="endpointslices",verb="create"} 1
# HELP podway_loadbalancer_pool_available_addresses Addresses of an AddressPool that nobody has.
# TYPE podway_loadbalancer_pool_available_addresses gauge
podway_loadbalancer_pool_available_addresses{pool="a"} 8
`

type brokenSource struct{}

func (brokenSource) Run(context.Context, func(*model.Snapshot)) error {
	return fmt.Errorf("no such kind")
}

func TestAFailedSourceEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Run(context.Background(), Options{Client: controltest.New(), Source: brokenSource{}, Loops: AllLoops, Log: quiet, NoElection: true})
		if err == nil || err.Error() != "control: source: no such kind" {
			t.Errorf("got %v", err)
		}
		if err := Run(context.Background(), Options{}); err == nil {
			t.Error("without a client it runs")
		}
	})
}

func TestASlowLoopGetsTheNewestSnapshot(t *testing.T) {
	var h hub
	in, done := h.subscribe()
	for i := range uint64(5) {
		h.put(&model.Snapshot{Rev: i})
	}
	if s := <-in; s.Rev != 4 {
		t.Errorf("got revision %d", s.Rev)
	}
	late, alsoDone := h.subscribe()
	if s := <-late; s.Rev != 4 {
		t.Errorf("a late subscriber got %d", s.Rev)
	}
	done()
	alsoDone()
	h.put(&model.Snapshot{Rev: 9})
	if len(in)+len(late) != 0 {
		t.Error("a subscriber that left still gets snapshots")
	}
}
