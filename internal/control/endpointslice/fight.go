package endpointslice

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podway/podway/internal/model"
)

const (
	fightSpan  = 5 * time.Second // a foreign write this soon after ours is an answer to it
	fightFirst = 50 * time.Millisecond
	fightLast  = 30 * time.Second
	fightTell  = 5 // after how many rounds an Event says so
)

// fight slows down the repair of objects that somebody else writes as well, so that two controllers that disagree do not
// load the API server.
type fight struct {
	rounds  int
	written time.Time // when this process wrote last
}

// wait returns how long the next repair has to wait.
func (f *fight) wait(now time.Time) time.Duration {
	if f.written.IsZero() || now.Sub(f.written) > fightSpan+fightLast {
		f.rounds = 0
	}
	f.rounds++
	if f.rounds == 1 {
		return 0
	}
	return min(fightFirst<<min(f.rounds-2, 20), fightLast)
}

// repair has the Service's slices looked at because somebody else changed them.
func (c *Controller) repair(n model.Name) {
	s := c.state(n)
	c.again(n, s.fight.wait(time.Now()))
	if s.fight.rounds == fightTell {
		c.event(n, "EndpointSliceContended", "another writer keeps changing the EndpointSlices of this Service: see that only one endpoint slice controller runs")
	}
}

// event tells the user about a Service, by a Warning.
func (c *Controller) event(n model.Name, reason, message string) {
	c.tell(n, corev1.EventTypeWarning, reason, message)
}

func (c *Controller) tell(n model.Name, kind, reason, message string) {
	level := slog.LevelInfo
	if kind == corev1.EventTypeWarning {
		level = slog.LevelWarn
	}
	c.Log.Log(context.Background(), level, "endpoint slices", "service", n.String(), "reason", reason, "message", message)
	if c.Recorder == nil {
		return
	}
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: n.Namespace, Name: n.Name}
	if svc := c.snap.Services.At(n); svc != nil {
		ref.UID, ref.ResourceVersion = uid(svc.UID), svc.ResourceVersion
	}
	c.Recorder.Event(ref, kind, reason, message)
}

// tellOf tells the user about an Endpoints object, by a Warning.
func (c *Controller) tellOf(ref *corev1.ObjectReference, reason, message string) {
	c.Log.Warn("endpoints", "endpoints", ref.Namespace+"/"+ref.Name, "reason", reason, "message", message)
	if c.Recorder != nil {
		c.Recorder.Event(ref, corev1.EventTypeWarning, reason, message)
	}
}

func endpointsRef(ep *Endpoints, n model.Name) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Endpoints", Namespace: n.Namespace, Name: n.Name}
	if ep != nil {
		ref.UID, ref.ResourceVersion = uid(ep.UID), ep.ResourceVersion
	}
	return ref
}
