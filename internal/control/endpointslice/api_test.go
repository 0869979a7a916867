package endpointslice

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/podway/podway/internal/model"
)

// server is client-go's fake with what a real API server adds: generated names, UIDs, versions, conflicts.
type server struct {
	*fake.Clientset
	version int
}

func newServer() *server {
	s := &server{Clientset: fake.NewSimpleClientset()} //nolint:staticcheck // managed fields do not matter here
	s.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetResource().Resource == "events" {
			return false, nil, nil
		}
		m := s.bump(a.(clienttesting.CreateAction).GetObject())
		m.SetUID(types.UID(fmt.Sprint("uid-", s.version)))
		if m.GetName() == "" {
			m.SetName(fmt.Sprintf("%s%05d", m.GetGenerateName(), s.version))
		}
		return false, nil, nil
	})
	s.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		obj := a.(clienttesting.UpdateAction).GetObject()
		m, _ := meta.Accessor(obj)
		old, err := s.Tracker().Get(a.GetResource(), a.GetNamespace(), m.GetName())
		if err != nil {
			return true, nil, err
		}
		if o, _ := meta.Accessor(old); m.GetResourceVersion() != "" && o.GetResourceVersion() != m.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), m.GetName(), fmt.Errorf("version %s", m.GetResourceVersion()))
		}
		s.bump(obj)
		return false, nil, nil
	})
	return s
}

func (s *server) bump(o runtime.Object) metav1.Object {
	m, _ := meta.Accessor(o)
	s.version++
	m.SetResourceVersion(strconv.Itoa(s.version))
	return m
}

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
func (l *lab) writes(verb, resource string) (n int) {
	for _, a := range l.server.Actions() {
		if a.GetVerb() == verb && a.GetResource().Resource == resource {
			n++
		}
	}
	l.server.ClearActions()
	return n
}
