package cluster

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podway/podway/internal/model"
)

func TestTheFirstSnapshotIsCompleteAndLaterOnesFollowTheCluster(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7"}}
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1", Labels: map[string]string{discoveryv1.LabelServiceName: "cart"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.5"}}}}
	client := fake.NewClientset(svc, slice)
	dyn := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()) // a cluster without the AddressPool kind
	w := &Watcher{Clients: Clients{Typed: client, Dynamic: dyn}, Kinds: []Kind{Services, EndpointSlices, Nodes, Pools}, Log: slog.New(slog.DiscardHandler)}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	snaps, ended := make(chan *model.Snapshot, 100), make(chan error, 1)
	go func() { ended <- w.Run(ctx, func(s *model.Snapshot) { snaps <- s }) }()

	first := next(t, snaps)
	if first.Services.Len() != 1 || first.Backends(model.N("shop", "cart")) == nil {
		t.Fatalf("the first snapshot lacks something: %d services, backends %v", first.Services.Len(), first.Backends(model.N("shop", "cart")))
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for s := next(t, snaps); s.Nodes.Len() != 1; s = next(t, snaps) {
	}
	if err := client.DiscoveryV1().EndpointSlices("shop").Delete(ctx, "cart-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for s := next(t, snaps); s.Backends(model.N("shop", "cart")) != nil; s = next(t, snaps) {
	}
	if first.Nodes.Len() != 0 || first.Backends(model.N("shop", "cart")) == nil {
		t.Error("an old snapshot changed")
	}
	stop()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("Run did not end with its context")
	}
}

func TestAHeartbeatOfANodeMakesNoSnapshot(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	client := fake.NewClientset(node)
	w := &Watcher{Clients: Clients{Typed: client}, Kinds: []Kind{Nodes}, Log: slog.New(slog.DiscardHandler)}
	snaps := make(chan *model.Snapshot, 100)
	go func() { _ = w.Run(t.Context(), func(s *model.Snapshot) { snaps <- s }) }()
	next(t, snaps)
	beat := node.DeepCopy()
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.Now()}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), beat, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ready := beat.DeepCopy()
	ready.Status.Conditions[0].Status = corev1.ConditionTrue
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), ready, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := next(t, snaps); !s.Nodes.At("node-1").Ready || s.Rev != 2 {
		t.Fatalf("want revision 2 with a ready node, got revision %d, ready %v", s.Rev, s.Nodes.At("node-1").Ready)
	}
}

func TestTheFirstSnapshotWaitsForTheAnswerWhetherThereArePools(t *testing.T) {
	client := fake.NewClientset()
	client.Resources = []*metav1.APIResourceList{{GroupVersion: PoolResource.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: PoolResource.Resource}}}}
	asked := 0
	client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked++; asked == 1 {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	pool := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "podway.io/v1alpha1", "kind": "AddressPool",
		"metadata": map[string]any{"name": "default"}, "spec": map[string]any{"addresses": []any{"192.0.2.0/28"}}}}
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{PoolResource: "AddressPoolList"}, pool)
	w := &Watcher{Clients: Clients{Typed: client, Dynamic: dyn}, Kinds: []Kind{Services, Pools}, Log: slog.New(slog.DiscardHandler)}
	snaps := make(chan *model.Snapshot, 100)
	go func() { _ = w.Run(t.Context(), func(s *model.Snapshot) { snaps <- s }) }()
	if first := next(t, snaps); first.Pools.Len() != 1 || asked < 2 {
		t.Errorf("the first snapshot has %d pools after %d questions, want 1 after 2", first.Pools.Len(), asked)
	}
}

func TestServiceCIDRsAreInTheFirstSnapshotWhereTheClusterHasThem(t *testing.T) {
	client := fake.NewClientset(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16", "fd00:96::/112"}}})
	for _, here := range []bool{true, false} {
		client.Resources = nil
		if here {
			client.Resources = []*metav1.APIResourceList{{GroupVersion: "networking.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "servicecidrs"}}}}
		}
		w := &Watcher{Clients: Clients{Typed: client}, Kinds: []Kind{Services, ServiceCIDRs}, Log: slog.New(slog.DiscardHandler)}
		snaps := make(chan *model.Snapshot, 100)
		go func() { _ = w.Run(t.Context(), func(s *model.Snapshot) { snaps <- s }) }()
		first, want := next(t, snaps), 0
		if here {
			want = 2
		}
		if r := first.ServiceCIDRs.At("kubernetes"); (r != nil) != here || r != nil && len(r.CIDRs) != want {
			t.Errorf("the kind is there %t: the first snapshot has %v", here, r)
		}
	}
}

func TestAWatchWithoutObjectsThatWorksAgainIsLostNoMore(t *testing.T) {
	version := "7"
	w := &Watcher{Log: slog.New(slog.DiscardHandler), failing: map[Kind]failure{}, version: map[Kind]func() string{Pools: func() string { return version }}}
	w.failed(Pools, errors.New("connection reset"))
	if _, lost := w.Lost(); !lost {
		t.Error("a watch that fails is not lost")
	}
	version = "9" // listed again, or a bookmark
	if since, lost := w.Lost(); lost {
		t.Errorf("lost since %s, and the watch works", since)
	}
	w.failed(Pools, errors.New("connection reset"))
	if _, lost := w.Lost(); !lost {
		t.Error("a watch that fails again is not lost")
	}
}

func next(t *testing.T, snaps <-chan *model.Snapshot) *model.Snapshot {
	t.Helper()
	select {
	case s := <-snaps:
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("no snapshot within 10 s")
		return nil
	}
}
