package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Condition is the type of the condition in a Service's status that says whether it has its addresses, and why not.
const Condition = model.AddressCondition

func (c *Controller) work(ctx context.Context) {
	for {
		n, stop := c.queue.Get()
		if stop {
			return
		}
		wait, err := c.syncSafely(ctx, n)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				c.failed(n, err)
			}
			c.queue.AddRateLimited(n)
		case wait > 0:
			c.queue.AddAfter(n, wait)
		default:
			c.queue.Forget(n)
		}
		c.queue.Done(n)
	}
}

func (c *Controller) failed(n model.Name, err error) {
	c.Log.Warn("load balancer status not written", "service", n.String(), "err", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if svc := c.snap.Services.At(n); svc != nil && c.Recorder != nil {
		ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: n.Namespace, Name: n.Name, UID: types.UID(svc.UID)}
		c.Recorder.Event(ref, corev1.EventTypeWarning, "SyncLoadBalancerFailed", err.Error())
	}
}

// syncSafely keeps a bug that one object brings out from stopping the others.
func (c *Controller) syncSafely(ctx context.Context, n model.Name) (wait time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("loadbalancer: sync panics: %v", r)
		}
	}()
	return c.sync(ctx, n)
}

// sync writes one Service's status, or says how long to wait until the snapshot has caught up with it.
func (c *Controller) sync(ctx context.Context, n model.Name) (wait time.Duration, err error) {
	if _, ok := c.planned(n); !ok {
		return 0, nil
	}
	api := c.Client.CoreV1().Services(n.Namespace)
	live, err := api.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("loadbalancer: read Service %s: %w", n, err)
	}
	c.settle(n, live)
	a, ok := c.planned(n)
	if !ok {
		return 0, nil
	}
	if string(live.UID) != a.Service.UID || model.ServiceType(live.Spec.Type) != a.Service.Type || !slices.Equal(addrsOf(live), had(a)) {
		return c.stale(n, live), nil
	}
	if !c.fill(live, a) {
		c.done(n, a, live, false)
		return 0, nil
	}
	if !c.begin(n, a) {
		return 0, nil
	}
	live, err = api.UpdateStatus(ctx, live, metav1.UpdateOptions{})
	if err != nil {
		return 0, fmt.Errorf("loadbalancer: write status of Service %s: %w", n, err)
	}
	c.done(n, a, live, true)
	return 0, nil
}

func (c *Controller) planned(n model.Name) (Assignment, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.plan[n]
	return a, ok
}

// begin reserves the addresses before they are written, and reports whether the assignment is still the plan: of two
// Services that are served side by side one could otherwise get what the other is about to have.
func (c *Controller) begin(n model.Name, a Assignment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, ok := c.plan[n]
	if !ok || now.words() != a.words() {
		return false // replan has queued it again
	}
	c.wrote[n] = written{addrs: a.Addrs}
	return true
}

// settle finds out how a write ended that brought an error.
func (c *Controller) settle(n model.Name, live *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.wrote[n]
	switch {
	case !ok || w.version != "":
	case slices.Equal(addrsOf(live), w.addrs):
		w.version = live.ResourceVersion
		c.wrote[n] = w
	default: // it was not written
		delete(c.wrote, n)
		c.replan(n)
	}
}

// had is the addresses that the Service had in the view that the plan was made from.
func had(a Assignment) (out []netip.Addr) {
	for _, ip := range a.Service.LoadBalancerIPs {
		out = append(out, ip.Addr)
	}
	return out
}

// stale notes that the plan was made from an old view of the Service. If the snapshot does not bring the new one, the
// Service is looked at again.
func (c *Controller) stale(n model.Name, live *corev1.Service) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.snap.Services.At(n); a != nil && a.ResourceVersion == live.ResourceVersion {
		return 0 // the plan is newer than the one this sync went by, or about to be
	}
	return staleWait
}

// fill puts the assignment into the object and reports whether that changes it. A host name that somebody put in stays.
func (c *Controller) fill(live *corev1.Service, a Assignment) bool {
	changed := false
	if !slices.Equal(addrsOf(live), a.Addrs) {
		changed = true
		vip := corev1.LoadBalancerIPModeVIP
		var in []corev1.LoadBalancerIngress
		for _, ip := range a.Addrs {
			in = append(in, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &vip})
		}
		for _, old := range live.Status.LoadBalancer.Ingress {
			if old.IP == "" {
				in = append(in, old)
			}
		}
		live.Status.LoadBalancer.Ingress = in
	}
	if a.Release {
		return meta.RemoveStatusCondition(&live.Status.Conditions, Condition) || changed
	}
	status := metav1.ConditionTrue
	if a.Failed() {
		status = metav1.ConditionFalse
	}
	return meta.SetStatusCondition(&live.Status.Conditions, metav1.Condition{Type: Condition, Status: status,
		Reason: a.Reason, Message: a.Message, ObservedGeneration: live.Generation}) || changed
}

// done remembers what the status says now, and tells the user when it was news.
func (c *Controller) done(n model.Name, a Assignment, live *corev1.Service, news bool) {
	c.mu.Lock()
	c.told[n] = a.words()
	if news {
		c.wrote[n] = written{version: live.ResourceVersion, addrs: a.Addrs}
	}
	c.mu.Unlock()
	if !news {
		return
	}
	kind, message := corev1.EventTypeNormal, a.Message
	if a.Failed() {
		kind, message = corev1.EventTypeWarning, string(flow.LBPending)+": "+a.Message
	}
	c.Log.Info("load balancer address", "service", n.String(), "reason", a.Reason, "message", a.Message)
	if c.Recorder != nil {
		c.Recorder.Event(live, kind, a.Reason, message)
	}
}
