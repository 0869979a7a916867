package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A leader that dies is replaced within leaseDuration; one that exits, within retryPeriod.
const (
	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second
)

// term waits for the Lease, leads while it holds, and returns when it is lost or ctx has ended. The Lease is released
// only after the loops have stopped, so that two leaders never write at the same time.
func (r *runner) term(ctx context.Context) error {
	var t term
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: r.Namespace, Name: Component},
			Client:     r.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: r.Identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true, Name: Component,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				if !t.begin() {
					return
				}
				defer t.end()
				both, stop := context.WithCancel(held)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				r.lead(both)
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(id string) { r.Log.Info("leader", "identity", id) },
		},
	})
	if err != nil {
		return fmt.Errorf("control: leader election: %w", err)
	}
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	defer context.AfterFunc(ctx, func() {
		t.stop()
		release()
	})()
	elector.Run(holding)
	t.stop()
	return nil
}

// term is one period of leading: it begins at most once, and not after stop.
type term struct {
	mu      sync.Mutex
	stopped bool
	running chan struct{}
}

func (t *term) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.running = make(chan struct{})
	return true
}

func (t *term) end() { close(t.running) }

// stop waits for the end of what has begun.
func (t *term) stop() {
	t.mu.Lock()
	t.stopped = true
	running := t.running
	t.mu.Unlock()
	if running != nil {
		<-running
	}
}
