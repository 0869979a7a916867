package endpointslice

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podway/podway/internal/model"
)

func (w *endpointsWriter) work(ctx context.Context) {
	for {
		n, stop := w.queue.Get()
		if stop {
			return
		}
		if err := w.sync(ctx, n); ctx.Err() == nil {
			w.settle(n, err)
		}
		w.queue.Done(n)
	}
}

// settle decides what happens to an Endpoints object after a sync.
func (w *endpointsWriter) settle(n model.Name, err error) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		if l := w.objects[n]; l != nil {
			l.failing = ""
		}
		w.queue.Forget(n)
		return
	}
	if l, kind := w.of(n), failure(err); kind != "" && kind != l.failing {
		l.failing = kind
		w.c.event(n, "FailedToUpdateEndpoint", err.Error())
	}
	w.queue.AddRateLimited(n)
}

func (w *endpointsWriter) sync(ctx context.Context, n model.Name) error {
	w.c.mu.Lock()
	have, known := w.get(n)
	svc, members, nodes := w.c.snap.Services.At(n), w.c.index.members(n), w.c.snap.Nodes
	l := *w.of(n)
	if known && svc == nil && have == nil {
		delete(w.objects, n)
	}
	w.c.mu.Unlock()
	switch {
	case !known || w.c.NoEndpoints:
		return nil
	case svc == nil:
		return w.orphan(ctx, n, have, l.gone)
	}
	want := w.c.names().desiredEndpoints(svc, members, nodes)
	if want == nil || have != nil && (have.same(want) || have.Labels[labelEndpointsBy] != "" && !w.owns(have)) {
		return nil
	}
	return w.write(ctx, have, want, l.trigger)
}

// orphan deletes the Endpoints of a Service that went: any at all when it was seen to go, as Kubernetes always did, own
// ones otherwise.
func (w *endpointsWriter) orphan(ctx context.Context, n model.Name, have *Endpoints, gone bool) error {
	if have == nil || !gone && !w.owns(have) || have.Annotations[annotationLeader] != "" {
		return nil
	}
	id := uid(have.UID)
	err := w.c.Client.CoreV1().Endpoints(n.Namespace).Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (w *endpointsWriter) write(ctx context.Context, have, want *Endpoints, trigger time.Time) error {
	if err := w.c.limit.Wait(ctx); err != nil {
		return err
	}
	api := w.c.Client.CoreV1().Endpoints(want.Name.Namespace)
	obj, err := encodeEndpoints(want), error(nil)
	obj.Annotations = map[string]string{}
	if have != nil {
		maps.Copy(obj.Annotations, have.Annotations)
		obj.UID, obj.ResourceVersion = uid(have.UID), have.ResourceVersion
	}
	delete(obj.Annotations, annotationOverCapacity)
	delete(obj.Annotations, annotationTrigger)
	maps.Copy(obj.Annotations, want.Annotations)
	if !trigger.IsZero() {
		obj.Annotations[annotationTrigger] = trigger.UTC().Format(time.RFC3339Nano)
	}
	verb := "update"
	if have == nil {
		verb = "create"
		obj, err = api.Create(ctx, obj, metav1.CreateOptions{})
	} else {
		obj, err = api.Update(ctx, obj, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("endpointslice: write Endpoints %s: %w", want.Name, err)
	}
	w.c.Metrics.wrote("endpoints", verb)
	done := *want
	done.UID, done.ResourceVersion = string(obj.UID), obj.ResourceVersion
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	l := w.of(want.Name)
	l.wrote, l.fight.written, l.trigger = &done, time.Now(), time.Time{}
	return nil
}
