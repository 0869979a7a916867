package controltest

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/model"
)

// Feed is a stream of snapshots: what tests put in, and what a Server's watches bring.
type Feed struct {
	C chan *model.Snapshot // the newest one

	mu    sync.Mutex
	b     *model.Builder
	muted bool
}

// NewFeed makes a Feed of an empty cluster; it sends nothing before the first change.
func NewFeed() *Feed { return &Feed{C: make(chan *model.Snapshot, 1), b: model.NewBuilder(nil)} }

// Put adds or replaces objects of the model.
func (f *Feed) Put(objs ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range objs {
		f.b.Put(o)
	}
	f.send()
}

// Delete removes an object of the model.
func (f *Feed) Delete(o any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.b.Delete(o)
	f.send()
}

// Mute keeps what the watches bring from coming in, as if the watch had stopped.
func (f *Feed) Mute(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.muted = on
}

func (f *Feed) send() {
	select {
	case <-f.C:
	default:
	}
	f.C <- f.b.Snapshot(time.Now())
}

// Follow watches the server's Services, EndpointSlices and Ingresses until ctx ends, and returns once the watches run.
// What is there already must be Put.
func (f *Feed) Follow(ctx context.Context, s *Server, wg *sync.WaitGroup) error {
	opt := metav1.ListOptions{}
	for _, open := range []func() (watch.Interface, error){
		func() (watch.Interface, error) { return s.CoreV1().Services("").Watch(ctx, opt) },
		func() (watch.Interface, error) { return s.DiscoveryV1().EndpointSlices("").Watch(ctx, opt) },
		func() (watch.Interface, error) { return s.NetworkingV1().Ingresses("").Watch(ctx, opt) },
	} {
		w, err := open()
		if err != nil {
			return err
		}
		wg.Go(func() { f.follow(ctx, w) })
	}
	return nil
}

func (f *Feed) follow(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.ResultChan():
			o := cluster.Convert(e.Object)
			f.mu.Lock()
			switch {
			case f.muted || o == nil:
			case e.Type == watch.Deleted:
				f.b.Delete(o)
				f.send()
			default:
				f.b.Put(o)
				f.send()
			}
			f.mu.Unlock()
		}
	}
}
