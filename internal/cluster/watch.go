package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	ServiceCIDRs   Kind = "servicecidrs"
)

const (
	tlsSecrets   = "type=" + string(corev1.SecretTypeTLS)
	kindRetry    = 5 * time.Second // how soon a kind that the API server does not have is looked for again
	kindAsk      = 200 * time.Millisecond
	publishPause = time.Millisecond
)

// Watcher is a Source over the API server's watches. A lost API server leaves the last snapshot in place.
type Watcher struct {
	Clients Clients
	Kinds   []Kind
	Log     *slog.Logger

	// NamesOnly keeps of Services, EndpointSlices and Pods no more than DNS names are made of, and gives the memory that the
	// first list took back to the system: for a program that does nothing else.
	NamesOnly bool

	mu      sync.Mutex
	builder *model.Builder
	dirty   chan struct{}
	synced  []cache.InformerSynced
	failing map[Kind]failure
	version map[Kind]func() string // that the objects of a watch have
}

// failure is a watch that fails. at is the version that its objects had then: another one means that it works again,
// which of a kind without objects no event tells.
type failure struct {
	since time.Time
	at    string
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
	w.version = map[Kind]func() string{}
	w.mu.Unlock()
	if err := w.start(ctx); err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), w.synced...) {
		return ctx.Err()
	}
	w.touch()
	for first := true; ; first = false {
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
		if first && w.NamesOnly {
			debug.FreeOSMemory()
		}
	}
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
		case Pools, ServiceCIDRs:
			if err := w.startOptional(ctx, k); err != nil {
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

// optional is a kind that an API server may lack: its resource, and an informer of its own, nil without a client for it.
func (w *Watcher) optional(k Kind) (schema.GroupVersionResource, cache.SharedIndexInformer) {
	if k == ServiceCIDRs {
		f := informers.NewSharedInformerFactory(w.Clients.Typed, 0)
		return networkingv1.SchemeGroupVersion.WithResource(string(k)), f.Networking().V1().ServiceCIDRs().Informer()
	}
	if w.Clients.Dynamic == nil {
		return PoolResource, nil
	}
	return PoolResource, dynamicinformer.NewDynamicSharedInformerFactory(w.Clients.Dynamic, 0).ForResource(PoolResource).Informer()
}

// startOptional watches a kind that the API server may lack, or waits in the background until it has it.
func (w *Watcher) startOptional(ctx context.Context, k Kind) error {
	resource, inf := w.optional(k)
	if inf == nil {
		return nil
	}
	here, err := w.has(resource)
	if err != nil { // a first view without the pools that there are would take addresses away
		w.Log.Warn("the API server does not say whether it has a kind; will retry", "kind", string(k), "err", err)
	}
	for ; err != nil; here, err = w.has(resource) {
		if !pause(ctx, kindAsk) {
			return ctx.Err()
		}
	}
	if err := w.followSynced(k, inf, here); err != nil {
		return err
	}
	go func() {
		for ; !here; here, _ = w.has(resource) {
			if !pause(ctx, kindRetry) {
				return
			}
		}
		inf.Run(ctx.Done())
	}()
	return nil
}

// pause waits and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (w *Watcher) has(r schema.GroupVersionResource) (bool, error) {
	list, err := w.Clients.Typed.Discovery().ServerResourcesForGroupVersion(r.GroupVersion().String())
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cluster: discover %s: %w", r.GroupVersion(), err)
	}
	return slices.ContainsFunc(list.APIResources, func(x metav1.APIResource) bool { return x.Name == r.Resource }), nil
}

func (w *Watcher) follow(k Kind, inf cache.SharedIndexInformer) error {
	return w.followSynced(k, inf, true)
}

// followSynced feeds the builder from an informer; wait says whether the first view must include it.
func (w *Watcher) followSynced(k Kind, inf cache.SharedIndexInformer, wait bool) error {
	w.mu.Lock()
	w.version[k] = inf.LastSyncResourceVersion
	w.mu.Unlock()
	if err := inf.SetTransform(w.trim); err != nil {
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
func (w *Watcher) trim(obj any) (any, error) {
	if k, ok := obj.(*kept); ok {
		return k, nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("cluster: trim: %w", err)
	}
	model := Convert(obj)
	if w.NamesOnly {
		model = namesOnly(model)
	}
	return &kept{obj: model, ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(),
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
	at := w.version[k]()
	if f, known := w.failing[k]; !known || f.at != at {
		w.failing[k] = failure{since: time.Now(), at: at}
		w.Log.Warn("watch fails; keeping the last view", "kind", string(k), "err", err)
	}
}

// Lost says for how long the API server has not answered or at least one watch has been failing, and whether that is so.
func (w *Watcher) Lost() (since time.Duration, lost bool) {
	since, lost = w.Clients.Contact.Lost()
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, f := range w.failing {
		if w.version[k]() == f.at {
			since, lost = max(since, time.Since(f.since)), true
		}
	}
	return since, lost
}
