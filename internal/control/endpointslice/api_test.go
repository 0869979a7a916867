package endpointslice

import (
	"context"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podway/podway/internal/control/controltest"
	"github.com/podway/podway/internal/model"
)

// server is the API server with what tests ask of it.
type server struct{ *controltest.Server }

func newServer() *server { return &server{controltest.New()} }

func (s *server) slices(t *testing.T) (out []*model.EndpointSlice) {
	t.Helper()
	list, err := s.DiscoveryV1().EndpointSlices("shop").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		out = append(out, decodeSlice(&list.Items[i]))
	}
	return out
}

// lab is a Controller that runs against a server, with the slices coming back as snapshots after lag.
type lab struct {
	t      *testing.T
	server *server
	ctl    *Controller
	events *record.FakeRecorder
	in     chan *model.Snapshot
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu   sync.Mutex
	b    *model.Builder
	mute bool // slices do not come back
}

func newLab(t *testing.T, s *server, edit func(*Controller)) *lab {
	l := &lab{t: t, server: s, events: record.NewFakeRecorder(100), in: make(chan *model.Snapshot, 1), b: model.NewBuilder(nil)}
	l.ctl = &Controller{Client: s, Recorder: l.events}
	if edit != nil {
		edit(l.ctl)
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	w, err := s.DiscoveryV1().EndpointSlices("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, sl := range s.slices(t) {
		l.b.Put(sl)
	}
	l.done.Go(func() { l.follow(ctx, w) })
	l.done.Go(func() { _ = l.ctl.Run(ctx, l.in) })
	return l
}

func (l *lab) close() {
	l.stop()
	l.done.Wait()
}

func (l *lab) follow(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.ResultChan():
			s, ok := e.Object.(*discoveryv1.EndpointSlice)
			if l.mu.Lock(); ok && !l.mute {
				if e.Type == watch.Deleted {
					l.b.Delete(decodeSlice(s))
				} else {
					l.b.Put(decodeSlice(s))
				}
				l.send()
			}
			l.mu.Unlock()
		}
	}
}

// send publishes the newest snapshot; mu is held.
func (l *lab) send() {
	select {
	case <-l.in:
	default:
	}
	l.in <- l.b.Snapshot(time.Now())
}

// put changes the cluster.
func (l *lab) put(objs ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range objs {
		l.b.Put(o)
	}
	l.send()
}

func (l *lab) delete(o any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Delete(o)
	l.send()
}

// writes counts the requests of a verb for a resource since the last call.
func (l *lab) writes(verb, resource string) int {
	defer l.server.ClearActions()
	return l.server.Writes(verb, resource)
}

// slowAnswers carries requests out at once and answers late.
type slowAnswers struct {
	kubernetes.Interface
	wait time.Duration
}

func (s *slowAnswers) DiscoveryV1() typed.DiscoveryV1Interface {
	return slowDiscovery{s.Interface.DiscoveryV1(), s.wait}
}

type slowDiscovery struct {
	typed.DiscoveryV1Interface
	wait time.Duration
}

func (s slowDiscovery) EndpointSlices(ns string) typed.EndpointSliceInterface {
	return slowSlices{s.DiscoveryV1Interface.EndpointSlices(ns), s.wait}
}

type slowSlices struct {
	typed.EndpointSliceInterface
	wait time.Duration
}

func (s slowSlices) Update(ctx context.Context, o *discoveryv1.EndpointSlice, opt metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	defer time.Sleep(s.wait)
	return s.EndpointSliceInterface.Update(ctx, o, opt)
}
