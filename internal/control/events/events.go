// Package events tells people in the cluster what happened on a node: Events about its Node and about Services. It decides
// nothing, and losing an Event changes nothing.
package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/podway/podway/internal/model"
)

// Recorder writes Events in the name of one component on one node. Its methods do not wait for the API server.
type Recorder struct {
	r    events.EventRecorder
	node *corev1.ObjectReference
}

// New returns a recorder that writes until ctx ends.
func New(ctx context.Context, client kubernetes.Interface, component, node string) *Recorder {
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	_ = b.StartRecordingToSinkWithContext(ctx) // fails only when a watcher cannot be started twice
	context.AfterFunc(ctx, b.Shutdown)
	return &Recorder{r: b.NewRecorder(scheme.Scheme, component),
		node: &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: ""}}
}

// Node says something about the node. action is what the component was doing, in one word, as reason is.
func (r *Recorder) Node(warning bool, reason, action, note string) {
	r.r.Eventf(r.node, nil, kind(warning), reason, action, "%s", note)
}

// Service warns about a Service on this node.
func (r *Recorder) Service(n model.Name, reason, action, note string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: n.Namespace, Name: n.Name}
	r.r.Eventf(about, r.node, corev1.EventTypeWarning, reason, action, "%s", note)
}

func kind(warning bool) string {
	if warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
