package endpointslice

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podway/podway/internal/model"
)

func (c *Controller) work(ctx context.Context) {
	for {
		n, stop := c.queue.Get()
		if stop {
			return
		}
		start := time.Now()
		if err := c.syncSafely(ctx, n); ctx.Err() == nil {
			c.Metrics.synced(start, err)
			c.settleWith(n, err)
		}
		c.queue.Done(n)
	}
}

// settleWith decides what happens to a Service after a sync.
func (c *Controller) settleWith(n model.Name, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state(n)
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		s.failing = ""
		c.queue.Forget(n)
		return
	}
	if s.dirt == nil {
		s.dirt = &dirt{}
	}
	s.dirt.pods = nil
	if kind := failure(err); kind != "" && kind != s.failing {
		s.failing = kind
		c.event(n, "FailedToUpdateEndpointSlices", err.Error())
	}
	c.queue.AddRateLimited(n)
}

// failure names the kind of an error that users should hear of, once; "" for what solves itself by trying again.
func failure(err error) string {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return ""
	}
	return cmp.Or(string(apierrors.ReasonForError(err)), "Unknown")
}

// syncSafely keeps a bug that one object brings out from stopping the others.
func (c *Controller) syncSafely(ctx context.Context, n model.Name) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("endpointslice: sync panics: %v", r)
		}
	}()
	return c.sync(ctx, n)
}

// sync plans under the lock, where a Service costs microseconds, and writes outside.
func (c *Controller) sync(ctx context.Context, n model.Name) error {
	c.mu.Lock()
	s := c.state(n)
	d := s.dirt
	s.dirt, s.last = nil, time.Now()
	if d == nil {
		c.mu.Unlock()
		return nil
	}
	ch := c.plan(n, s, d)
	s.writing = !ch.Empty()
	c.mu.Unlock()
	if ch.Empty() {
		return nil
	}
	defer c.written(n, s)
	stamp(ch, d.trigger)
	return c.write(ctx, n, ch)
}

// written ends what began with s.writing.
func (c *Controller) written(n model.Name, s *state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.writing = false; s.recheck {
		s.recheck = false
		c.again(n, 0)
	}
}

func (c *Controller) plan(n model.Name, s *state, d *dirt) (ch Changes) {
	var own, mirror []*model.EndpointSlice
	for _, sl := range c.slicesOf(n) {
		if isMirrored(sl) {
			mirror = append(mirror, sl)
		} else {
			own = append(own, sl)
		}
	}
	svc := c.snap.Services.At(n)
	if svc == nil {
		return c.planOrphans(n, s, slices.Concat(own, mirror))
	}
	switch {
	case d.pods == nil || svc.Deleting || proportional(svc):
		ch = c.names().desired(svc, c.index.members(n), c.snap.Nodes, own, c.zones)
	default:
		members, selected := make([]*model.Pod, 0, len(d.pods)), c.index.selected[n]
		for name := range d.pods {
			if p := selected[name]; p != nil {
				members = append(members, p)
			}
		}
		ch = c.names().touch(svc, members, slices.Collect(maps.Keys(d.pods)), c.snap.Nodes, own, s.shelves)
	}
	c.tellHints(n, s, ch.Unhinted)
	if ep, known := c.endpoints.get(n); known {
		m := c.names().mirror(svc, ep, mirror)
		c.tellUnmirrored(n, s, ep, m.Unmirrored)
		ch.add(m)
	}
	return ch
}

// planOrphans drops the slices of a Service that is gone. After a start, when the Service may only be late, it waits.
func (c *Controller) planOrphans(n model.Name, s *state, left []*model.EndpointSlice) Changes {
	if s.missing.IsZero() {
		s.missing = time.Now()
	}
	if len(left) == 0 {
		return Changes{}
	}
	if wait := orphanAge - time.Since(s.missing); !s.gone && wait > 0 {
		c.again(n, wait)
		return Changes{}
	}
	return Changes{Delete: left}
}

// stamp writes the time of the oldest change into each slice to be written, or takes an old one away.
func stamp(ch Changes, trigger time.Time) {
	for _, s := range slices.Concat(ch.Create, ch.Update) {
		a := make(map[string]string, len(s.Annotations)+1)
		maps.Copy(a, s.Annotations)
		delete(a, annotationTrigger)
		if !trigger.IsZero() {
			a[annotationTrigger] = trigger.UTC().Format(time.RFC3339Nano)
		}
		s.Annotations = a
	}
}

// write carries the changes out, creations first, so that an endpoint that moves is never nowhere. After a write that met
// another version the truth is read back from the API server.
func (c *Controller) write(ctx context.Context, n model.Name, ch Changes) error {
	api := c.Client.DiscoveryV1().EndpointSlices(n.Namespace)
	for _, s := range slices.Concat(ch.Create, ch.Update) {
		if err := c.put(ctx, n, s); err != nil {
			return c.failed(ctx, n, err)
		}
	}
	for _, s := range ch.Delete {
		if err := c.limit.Wait(ctx); err != nil {
			return err
		}
		id := uid(s.UID)
		opt := metav1.DeleteOptions{}
		if id != "" {
			opt.Preconditions = &metav1.Preconditions{UID: &id}
		}
		err := api.Delete(ctx, s.Name.Name, opt)
		if err != nil && !apierrors.IsNotFound(err) {
			return c.failed(ctx, n, fmt.Errorf("endpointslice: delete slice %s of Service %s: %w", s.Name.Name, n, err))
		}
		c.Metrics.wrote("endpointslices", "delete")
		c.wrote(n, s, true)
	}
	return nil
}

// put creates or updates one slice.
func (c *Controller) put(ctx context.Context, n model.Name, s *model.EndpointSlice) error {
	if err := c.limit.Wait(ctx); err != nil {
		return err
	}
	api, obj := c.Client.DiscoveryV1().EndpointSlices(n.Namespace), encodeSlice(s)
	var err error
	verb := "update"
	if s.Name.Name == "" {
		verb = "create"
		if obj, err = api.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("endpointslice: create slice of Service %s: %w", n, err)
		}
	} else if obj, err = api.Update(ctx, obj, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("endpointslice: update slice %s of Service %s: %w", s.Name.Name, n, err)
	}
	c.Metrics.wrote("endpointslices", verb)
	done := *s
	done.Name.Name, done.UID, done.ResourceVersion = obj.Name, string(obj.UID), obj.ResourceVersion
	c.wrote(n, &done, false)
	return nil
}

func (c *Controller) wrote(n model.Name, s *model.EndpointSlice, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.state(n)
	now := time.Now()
	st.overlay[s.Name.Name] = written{slice: s, deleted: deleted, at: now}
	st.fight.written = now
}

// failed returns err, having read the Service's slices afresh if err says that the view is stale.
func (c *Controller) failed(ctx context.Context, n model.Name, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		c.refresh(ctx, n)
	}
	return err
}

// refresh reads the Service's slices from the API server into the overlay.
func (c *Controller) refresh(ctx context.Context, n model.Name) {
	list, err := c.Client.DiscoveryV1().EndpointSlices(n.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labelServiceName + "=" + n.Name})
	if err != nil {
		c.Log.Warn("read slices back", "service", n.String(), "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, there := time.Now(), overlay{}
	for i := range list.Items {
		if s := decodeSlice(&list.Items[i]); c.manages(s) {
			there[s.Name.Name] = written{slice: s, at: now}
		}
	}
	for _, s := range c.managed(c.snap, n) {
		if _, ok := there[s.Name.Name]; !ok {
			there[s.Name.Name] = written{slice: s, deleted: true, at: now}
		}
	}
	c.state(n).overlay = there
}

func uid(s string) types.UID { return types.UID(s) }
