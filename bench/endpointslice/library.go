package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	kube "k8s.io/endpointslice"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
)

// library is the reconciler of kube-controller-manager, called as its controller calls it.
type library struct {
	api      *api
	svc      *corev1.Service
	pods     []*corev1.Pod
	turn     int
	rec      *kube.Reconciler
	existing []*discoveryv1.EndpointSlice
	wrote    []*discoveryv1.EndpointSlice
}

func newLibrary(n int, a *api) (subject, error) {
	l := &library{api: a, svc: service()}
	a.wrote = func(s *discoveryv1.EndpointSlice) { l.wrote = append(l.wrote, s) }
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range nodes {
		if err := known.Add(node(i)); err != nil {
			return nil, fmt.Errorf("library: %w", err)
		}
	}
	for i := range n {
		l.pods = append(l.pods, pod(i, true, 1))
	}
	l.rec = kube.NewReconciler(a, listers.NewNodeLister(known), 100, util.NewEndpointSliceTracker(), topologycache.NewTopologyCache(),
		record.NewFakeRecorder(100), "endpointslice-controller.k8s.io", kube.WithPreferSameTrafficDistributionEnabled(true))
	return l, l.reconcile()
}

func (l *library) reconcile() error {
	l.wrote = nil
	return l.rec.Reconcile(klog.FromContext(context.Background()), l.svc, l.pods, l.existing, time.Time{})
}

// flip is the time of one Reconcile.
func (l *library) flip() (time.Duration, error) {
	l.seen()
	l.turn++
	ready := l.turn%2 == 0
	l.pods[len(l.pods)/2] = pod(len(l.pods)/2, ready, l.turn+1)
	start := time.Now()
	if err := l.reconcile(); err != nil {
		return 0, fmt.Errorf("library: %w", err)
	}
	took := time.Since(start)
	if len(l.wrote) != 1 {
		return 0, fmt.Errorf("library: %d writes for one Pod", len(l.wrote))
	}
	if err := says(l.wrote[0], len(l.pods)/2, ready); err != nil {
		return 0, fmt.Errorf("library: %w", err)
	}
	l.api.done()
	return took, nil
}

// seen brings what was written into the view, as the watch would.
func (l *library) seen() {
	for _, w := range l.wrote {
		found := false
		for i, s := range l.existing {
			if s.Name == w.Name {
				l.existing[i], found = w, true
			}
		}
		if !found {
			l.existing = append(l.existing, w)
		}
	}
	l.wrote = nil
}

func (l *library) close() error { return nil }
