package endpointslice

import (
	"context"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	feed   *controltest.Feed
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func newLab(t *testing.T, s *server, edit func(*Controller)) *lab {
	l := &lab{t: t, server: s, events: record.NewFakeRecorder(100), feed: controltest.NewFeed()}
	l.ctl = &Controller{Client: s, Recorder: l.events}
	if edit != nil {
		edit(l.ctl)
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for _, sl := range s.slices(t) {
		l.put(sl)
	}
	if err := l.feed.Follow(ctx, s.Server, &l.done); err != nil {
		t.Fatal(err)
	}
	l.done.Go(func() { _ = l.ctl.Run(ctx, l.feed.C) })
	return l
}

func (l *lab) close() {
	l.stop()
	l.done.Wait()
}

// put changes the cluster.
func (l *lab) put(objs ...any) { l.feed.Put(objs...) }

func (l *lab) delete(o any) { l.feed.Delete(o) }

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
