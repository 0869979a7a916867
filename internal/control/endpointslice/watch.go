package endpointslice

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/podway/podway/internal/model"
)

const endpointsWorkers = 4

// endpointsWriter reads all v1 Endpoints, for mirroring, and writes those of Services with a selector.
type endpointsWriter struct {
	c      *Controller
	store  cache.Store
	synced cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[model.Name]

	objects map[model.Name]*legacy // guarded by c.mu
}

// legacy is what is known of one Endpoints object beyond the store.
type legacy struct {
	wrote   *Endpoints // last own write, as long as the store may not show it
	trigger time.Time  // of the oldest change not yet written
	fight   fight
	gone    bool   // its Service was seen to go
	failing string // kind of the failure that the user was told of, until a write succeeds
}

// kept is what the store holds of an Endpoints object.
type kept struct {
	metav1.ObjectMeta
	e *Endpoints
}

func newEndpointsWriter(c *Controller) *endpointsWriter {
	return &endpointsWriter{c: c, queue: newQueue(), objects: map[model.Name]*legacy{}}
}

func (w *endpointsWriter) start(ctx context.Context, wg *sync.WaitGroup) error {
	inf := informers.NewSharedInformerFactory(w.c.Client, 0).Core().V1().Endpoints().Informer()
	if err := inf.SetTransform(trim); err != nil {
		return fmt.Errorf("endpointslice: watch endpoints: %w", err)
	}
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.changed,
		UpdateFunc: func(_, o any) { w.changed(o) },
		DeleteFunc: w.deleted,
	})
	if err != nil {
		return fmt.Errorf("endpointslice: watch endpoints: %w", err)
	}
	w.store, w.synced = inf.GetStore(), reg.HasSynced
	wg.Go(func() { inf.RunWithContext(ctx) })
	wg.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), w.synced) {
			w.allAgain()
			for range endpointsWorkers {
				wg.Go(func() { w.work(ctx) })
			}
		}
		<-ctx.Done()
		w.queue.ShutDown()
	})
	return nil
}

func trim(o any) (any, error) {
	e, ok := o.(*corev1.Endpoints) //nolint:staticcheck // deprecated, and still in use
	if !ok {
		return o, nil
	}
	return &kept{e: decodeEndpoints(e), ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name,
		UID: e.UID, ResourceVersion: e.ResourceVersion}}, nil
}

// allAgain has the Services looked at that were planned before the first list of Endpoints was there.
func (w *endpointsWriter) allAgain() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.snap == nil {
		return
	}
	for n, svc := range w.c.snap.Services.All() {
		if len(svc.Selector) == 0 {
			w.c.again(n, 0)
		}
		w.soon(n, time.Time{})
	}
	for _, o := range w.store.List() {
		if k, ok := o.(*kept); ok && w.c.snap.Services.At(k.e.Name) == nil && w.owns(k.e) {
			w.queue.AddAfter(k.e.Name, orphanAge)
		}
	}
}

// changed notes that an Endpoints object came, changed or went.
func (w *endpointsWriter) changed(o any) {
	k, ok := o.(*kept)
	if !ok || !w.synced() {
		return
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.snap == nil {
		return
	}
	n := k.e.Name
	svc, l := w.c.snap.Services.At(n), w.of(n)
	switch {
	case svc != nil && len(svc.Selector) == 0:
		w.c.soil(n, "", time.Time{})
	case l.wrote != nil && l.wrote.ResourceVersion == k.ResourceVersion: // the echo of an own write
	case svc != nil || w.owns(k.e):
		w.queue.AddAfter(n, max(endpointsPause, l.fight.wait(time.Now())))
	}
}

func (w *endpointsWriter) deleted(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if k, ok := o.(*kept); ok {
		w.c.mu.Lock()
		w.of(k.e.Name).wrote = nil
		w.c.mu.Unlock()
		w.changed(k)
	}
}

// of returns what is known of one object; c.mu is held.
func (w *endpointsWriter) of(n model.Name) *legacy {
	l := w.objects[n]
	if l == nil {
		l = &legacy{}
		w.objects[n] = l
	}
	return l
}

// get returns the Endpoints of that name, nil when there is none; known is false before the first list. c.mu is held.
func (w *endpointsWriter) get(n model.Name) (e *Endpoints, known bool) {
	if w.synced == nil || !w.synced() {
		return nil, false
	}
	o, ok, _ := w.store.GetByKey(n.String())
	if k, is := o.(*kept); ok && is {
		e = k.e
	}
	l := w.objects[n]
	if l == nil || l.wrote == nil {
		return e, true
	}
	if e == nil && time.Since(l.fight.written) < echoAge {
		return l.wrote, true
	}
	if e != nil {
		if order, err := resourceversion.CompareResourceVersion(l.wrote.ResourceVersion, e.ResourceVersion); err == nil && order > 0 {
			return l.wrote, true
		}
	}
	l.wrote = nil
	return e, true
}

// soon has the Endpoints of a Service looked at after a pause, since they are one large object; c.mu is held.
func (w *endpointsWriter) soon(n model.Name, trigger time.Time) {
	if w.c.NoEndpoints {
		return
	}
	if l := w.of(n); !trigger.IsZero() && (l.trigger.IsZero() || trigger.Before(l.trigger)) {
		l.trigger = trigger
	}
	w.queue.AddAfter(n, endpointsPause)
}

// owns reports whether an Endpoints object may be rewritten: it is ours, or nobody's, or to be taken over.
func (w *endpointsWriter) owns(e *Endpoints) bool {
	switch e.Labels[labelEndpointsBy] {
	case EndpointsManagedBy:
		return true
	case kubeEndpointsManagedBy:
		return w.c.takes()
	}
	return false
}
