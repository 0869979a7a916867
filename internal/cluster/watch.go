package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/podway/podway/internal/model"
)

// Kind names what a Watcher watches.
type Kind string

// The kinds that can be watched.
const (
	Services       Kind = "services"
	EndpointSlices Kind = "endpointslices"
	Nodes          Kind = "nodes"
	Pods           Kind = "pods"
	Ingresses      Kind = "ingresses"
	IngressClasses Kind = "ingressclasses"
	TLSSecrets     Kind = "secrets"
	Pools          Kind = "addresspools"
)

const (
	tlsSecrets   = "type=" + string(corev1.SecretTypeTLS)
	poolRetry    = 5 * time.Second // how soon a missing AddressPool kind is looked for again
	publishPause = time.Millisecond
)

// Watcher is a Source over the API server's watches. A lost API server leaves the last snapshot in place.
type Watcher struct {
	Clients Clients
	Kinds   []Kind
	Log     *slog.Logger

	mu      sync.Mutex
	builder *model.Builder
	dirty   chan struct{}
	synced  []cache.InformerSynced
	failing map[Kind]failure
}

type failure struct {
	err   error
	since time.Time
}

// kept is what an informer stores for an object: its key and the model object, nothing of the API object.
type kept struct {
	metav1.ObjectMeta
	obj any
}

// Run watches until ctx ends and calls put with each new snapshot; the first call is the complete view. put is called
// from one goroutine; while it runs, changes gather in the next snapshot.
func (w *Watcher) Run(ctx context.Context, put func(*model.Snapshot)) error {
	w.mu.Lock()
	w.builder, w.dirty, w.failing = model.NewBuilder(nil), make(chan struct{}, 1), map[Kind]failure{}
	w.mu.Unlock()
	if err := w.start(ctx); err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), w.synced...) {
		return ctx.Err()
	}
	w.touch()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.dirty:
		}
		time.Sleep(publishPause) // lets one API transaction's objects (Service and slices) arrive together
		w.mu.Lock()
		s := w.builder.Snapshot(time.Now())
		w.mu.Unlock()
		put(s)
	}
}

// Health returns the watches that fail now, with the reason and since when; empty = all well.
func (w *Watcher) Health() (problems []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, f := range w.failing {
		problems = append(problems, fmt.Sprintf("watch of %s fails since %s: %v", k, f.since.Format(time.RFC3339), f.err))
	}
	return problems
}

func (w *Watcher) start(ctx context.Context) error {
	typed := informers.NewSharedInformerFactory(w.Clients.Typed, 0)
	secrets := informers.NewSharedInformerFactoryWithOptions(w.Clients.Typed, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = tlsSecrets }))
	for _, k := range w.Kinds {
		var inf cache.SharedIndexInformer
		switch k {
		case Services:
			inf = typed.Core().V1().Services().Informer()
		case EndpointSlices:
			inf = typed.Discovery().V1().EndpointSlices().Informer()
		case Nodes:
			inf = typed.Core().V1().Nodes().Informer()
		case Pods:
			inf = typed.Core().V1().Pods().Informer()
		case Ingresses:
			inf = typed.Networking().V1().Ingresses().Informer()
		case IngressClasses:
			inf = typed.Networking().V1().IngressClasses().Informer()
		case TLSSecrets:
			inf = secrets.Core().V1().Secrets().Informer()
		case Pools:
			if err := w.startPools(ctx); err != nil {
				return err
			}
			continue
		default:
			return fmt.Errorf("cluster: watch %q: unknown kind", k)
		}
		if err := w.follow(k, inf); err != nil {
			return err
		}
	}
	typed.Start(ctx.Done())
	secrets.Start(ctx.Done())
	return nil
}

// startPools watches AddressPools, or waits in the background until the cluster has that kind.
func (w *Watcher) startPools(ctx context.Context) error {
	if w.Clients.Dynamic == nil {
		return nil
	}
	inf := dynamicinformer.NewDynamicSharedInformerFactory(w.Clients.Dynamic, 0).ForResource(PoolResource).Informer()
	here := w.hasPools()
	if err := w.followSynced(Pools, inf, here); err != nil {
		return err
	}
	go func() {
		for ; !here; here = w.hasPools() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(poolRetry):
			}
		}
		inf.Run(ctx.Done())
	}()
	return nil
}

func (w *Watcher) hasPools() bool {
	list, err := w.Clients.Typed.Discovery().ServerResourcesForGroupVersion(PoolResource.GroupVersion().String())
	if err != nil {
		return false
	}
	for _, r := range list.APIResources {
		if r.Name == PoolResource.Resource {
			return true
		}
	}
	return false
}

func (w *Watcher) follow(k Kind, inf cache.SharedIndexInformer) error {
	return w.followSynced(k, inf, true)
}

// followSynced feeds the builder from an informer; wait says whether the first view must include it.
func (w *Watcher) followSynced(k Kind, inf cache.SharedIndexInformer, wait bool) error {
	if err := inf.SetTransform(trim); err != nil {
		return fmt.Errorf("cluster: watch %s: %w", k, err)
	}
	err := inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { w.failed(k, err) })
	if err != nil {
		return fmt.Errorf("cluster: watch %s: %w", k, err)
	}
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.change(k, nil, o) },
		UpdateFunc: func(old, o any) { w.change(k, old, o) },
		DeleteFunc: func(o any) { w.remove(k, o) },
	})
	if err != nil {
		return fmt.Errorf("cluster: watch %s: %w", k, err)
	}
	if wait {
		w.synced = append(w.synced, reg.HasSynced)
	}
	return nil
}

// trim turns an API object into a kept one as it comes in.
func trim(obj any) (any, error) {
	if k, ok := obj.(*kept); ok {
		return k, nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("cluster: trim: %w", err)
	}
	return &kept{obj: Convert(obj), ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(),
		ResourceVersion: m.GetResourceVersion(), UID: m.GetUID()}}, nil
}

func (w *Watcher) change(k Kind, old, obj any) {
	n, ok := obj.(*kept)
	if !ok || n.obj == nil {
		return
	}
	if o, ok := old.(*kept); ok && reflect.DeepEqual(o.obj, n.obj) {
		w.alive(k)
		return // a heartbeat: nothing that the model holds has changed
	}
	w.mu.Lock()
	delete(w.failing, k)
	w.builder.Put(n.obj)
	w.mu.Unlock()
	w.touch()
}

func (w *Watcher) remove(k Kind, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	n, ok := obj.(*kept)
	if !ok || n.obj == nil {
		return
	}
	w.mu.Lock()
	delete(w.failing, k)
	w.builder.Delete(n.obj)
	w.mu.Unlock()
	w.touch()
}

func (w *Watcher) touch() {
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

func (w *Watcher) alive(k Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.failing, k)
}

func (w *Watcher) failed(k Kind, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.failing[k]; !known {
		w.failing[k] = failure{err: err, since: time.Now()}
		w.Log.Warn("watch fails; keeping the last view", "kind", string(k), "err", err)
	}
}

// Lost says for how long at least one watch has been failing, and whether one does.
func (w *Watcher) Lost() (since time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.failing {
		since, lost = max(since, time.Since(f.since)), true
	}
	return since, lost
}
