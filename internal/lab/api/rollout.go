package api

import (
	"context"
	"fmt"
	"time"
)

// workload is the part of a DaemonSet or Deployment that says how far it is.
type workload struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		Replicas *int64 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration     int64 `json:"observedGeneration"`
		DesiredNumberScheduled int64 `json:"desiredNumberScheduled"`
		UpdatedNumberScheduled int64 `json:"updatedNumberScheduled"`
		NumberReady            int64 `json:"numberReady"`
		UpdatedReplicas        int64 `json:"updatedReplicas"`
		ReadyReplicas          int64 `json:"readyReplicas"`
	} `json:"status"`
}

// progress returns how many pods are ready of how many, counting only pods of the newest template.
func (w workload) progress(kind string, nodes int) (ready, want int64) {
	if kind == "Deployment" {
		want = 1
		if w.Spec.Replicas != nil {
			want = *w.Spec.Replicas
		}
		ready = min(w.Status.UpdatedReplicas, w.Status.ReadyReplicas)
	} else {
		// The controller may not have seen every node yet.
		want = max(w.Status.DesiredNumberScheduled, int64(nodes))
		ready = min(w.Status.UpdatedNumberScheduled, w.Status.NumberReady)
	}
	if w.Status.ObservedGeneration < w.Metadata.Generation {
		ready = 0
	}
	return ready, want
}

// IsWorkload says whether the object makes pods that one can wait for.
func (a Applied) IsWorkload() bool {
	kind := a.Object.text("kind")
	return kind == "DaemonSet" || kind == "Deployment"
}

// Namespace is the object's; empty for one without.
func (a Applied) Namespace() string { return a.Object.text("metadata", "namespace") }

// WaitRolledOut waits until every DaemonSet (on all of so many nodes) and Deployment among the objects has its pods
// ready. When ctx ends first, the error says what was missing.
func (c *Client) WaitRolledOut(ctx context.Context, objects []Applied, nodes int) error {
	for _, a := range objects {
		if !a.IsWorkload() {
			continue
		}
		kind := a.Object.text("kind")
		last := "not looked at yet"
		for {
			var w workload
			if err := c.Get(ctx, a.Path, &w); err != nil {
				last = err.Error()
			} else {
				ready, want := w.progress(kind, nodes)
				if ready >= want {
					break
				}
				last = fmt.Sprintf("%d of %d pods ready", ready, want)
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("api: %s in namespace %s: %s: %w", a.Object, a.Namespace(), last, err)
			}
		}
	}
	return nil
}
