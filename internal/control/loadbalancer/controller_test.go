package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control/controltest"
	"github.com/podway/podway/internal/model"
)

type lab struct {
	t      *testing.T
	server *controltest.Server
	feed   *controltest.Feed
	ctl    *Controller
	events *record.FakeRecorder
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func newLab(t *testing.T, s *controltest.Server, objs ...any) *lab {
	return newLabWithout(t, s, "", objs...)
}

// newLabWithout starts with a first view that lacks one Service.
func newLabWithout(t *testing.T, s *controltest.Server, lacks string, objs ...any) *lab {
	l := &lab{t: t, server: s, feed: controltest.NewFeed(), events: record.NewFakeRecorder(100)}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	if err := l.feed.Follow(ctx, s, &l.done); err != nil {
		t.Fatal(err)
	}
	list, _ := s.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	for i := range list.Items {
		if list.Items[i].Name == lacks {
			continue
		}
		objs = append(objs, cluster.Convert(&list.Items[i]))
	}
	l.ctl = &Controller{Client: s, Recorder: l.events}
	l.done.Go(func() { _ = l.ctl.Run(ctx, l.feed.C) })
	synctest.Wait()
	l.feed.Put(objs...)
	synctest.Wait()
	return l
}

func (l *lab) close() {
	l.stop()
	l.done.Wait()
}

func (l *lab) create(name string, edit ...func(*corev1.Service)) {
	l.t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}}
	for _, e := range edit {
		e(s)
	}
	if _, err := l.server.CoreV1().Services("shop").Create(context.Background(), s, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	synctest.Wait()
}

func (l *lab) update(name string, edit func(*corev1.Service)) {
	l.t.Helper()
	api := l.server.CoreV1().Services("shop")
	s, err := api.Get(context.Background(), name, metav1.GetOptions{})
	if err == nil {
		edit(s)
		_, err = api.Update(context.Background(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	synctest.Wait()
}

// says is a Service's status: "192.0.2.1 True IPAllocated: has 192.0.2.1".
func (l *lab) says(name string) string {
	l.t.Helper()
	s, err := l.server.CoreV1().Services("shop").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	out := join(addrsOf(s))
	if c := meta.FindStatusCondition(s.Status.Conditions, Condition); c != nil {
		out += fmt.Sprintf(" %s %s: %s", c.Status, c.Reason, c.Message)
	}
	return out
}

func (l *lab) want(name, want string) {
	l.t.Helper()
	if got := l.says(name); got != want {
		l.t.Errorf("Service %s says %q, want %q", name, got, want)
	}
}

func TestAnAddressIsGivenKeptOverARestartAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := controltest.New()
		l := newLab(t, s, pool("a", "192.0.2.1-192.0.2.2"))
		l.create("x")
		l.create("y")
		l.create("z")
		time.Sleep(time.Second)
		l.want("x", "192.0.2.1 True IPAllocated: has 192.0.2.1")
		l.want("y", "192.0.2.2 True IPAllocated: has 192.0.2.2")
		l.want("z", " False AllocationFailed: no AddressPool has a free IPv4 address")
		for _, want := range []string{"Normal IPAllocated has 192.0.2.1", "Normal IPAllocated has 192.0.2.2", "Warning AllocationFailed PW-3001: no AddressPool"} {
			if e := <-l.events.Events; !strings.HasPrefix(e, want) {
				t.Errorf("event %q, want %q", e, want)
			}
		}
		l.close()
		s.ClearActions()
		l = newLab(t, s, pool("a", "192.0.2.1-192.0.2.2"))
		time.Sleep(time.Minute)
		if n := s.Writes("update", "services"); n != 0 {
			t.Errorf("a restart writes %d times", n)
		}
		l.update("x", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(time.Second)
		l.want("x", "")
		l.want("z", "192.0.2.1 True IPAllocated: has 192.0.2.1")
		l.update("y", func(s *corev1.Service) { // newer API servers clear the addresses themselves
			s.Spec.Type, s.Status.LoadBalancer = corev1.ServiceTypeClusterIP, corev1.LoadBalancerStatus{}
		})
		time.Sleep(time.Second)
		l.want("y", "")
		l.close()
	})
}

func TestAnAddressThatSomebodyTakesAwayIsGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, controltest.New(), pool("a", "192.0.2.1-192.0.2.2"))
		defer l.close()
		l.create("x")
		time.Sleep(time.Second)
		l.want("x", "192.0.2.1 True IPAllocated: has 192.0.2.1")
		l.update("x", func(s *corev1.Service) { s.Status.LoadBalancer = corev1.LoadBalancerStatus{} })
		time.Sleep(time.Second)
		l.want("x", "192.0.2.1 True IPAllocated: has 192.0.2.1")
	})
}

func TestNoAddressIsGivenTwiceWhenTheWatchIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := controltest.New()
		l := newLab(t, s, pool("a", "192.0.2.1-192.0.2.9"))
		l.feed.Mute(true) // no status comes back
		for _, name := range []string{"x", "y", "z"} {
			l.create(name)
			live, _ := s.CoreV1().Services("shop").Get(t.Context(), name, metav1.GetOptions{})
			l.feed.Put(cluster.Convert(live))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		seen := map[string]bool{}
		for _, name := range []string{"x", "y", "z"} {
			addr, _, _ := strings.Cut(l.says(name), " ")
			if addr == "" || seen[addr] {
				t.Errorf("Service %s has %q", name, addr)
			}
			seen[addr] = true
		}
		l.close()

		// A new leader whose watch lacks a Service altogether.
		l = newLabWithout(t, s, "x", pool("a", "192.0.2.1-192.0.2.9"))
		l.feed.Mute(true)
		l.create("new")
		live, _ := s.CoreV1().Services("shop").Get(t.Context(), "new", metav1.GetOptions{})
		l.feed.Put(cluster.Convert(live))
		time.Sleep(time.Second)
		if addr, _, _ := strings.Cut(l.says("new"), " "); addr == "" || seen[addr] {
			t.Errorf("the new Service has %q", addr)
		}
		l.close()
	})
}

func TestOthersStatusIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, controltest.New(), pool("a", "192.0.2.1-192.0.2.9"))
		defer l.close()
		other := "example.com/lb"
		l.create("class", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &other })
		l.create("cloud", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "34.1.2.3"}}
		})
		l.create("later")
		l.update("later", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "34.1.2.4"}}
		})
		time.Sleep(time.Minute)
		l.want("class", "")
		l.want("cloud", "34.1.2.3")
		l.want("later", "34.1.2.4") // and its condition is taken away
	})
}

func TestWithoutPoolsOnlyServicesThatNamePodwayAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, controltest.New(), &model.Node{Name: "n"})
		defer l.close()
		class := model.LoadBalancerClass
		l.create("x")
		l.create("y", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class })
		time.Sleep(time.Second)
		l.want("x", "")
		l.want("y", " False AllocationFailed: the cluster has no AddressPool")
		l.feed.Put(pool("a", "192.0.2.1-192.0.2.9"))
		time.Sleep(time.Second)
		l.want("x", "192.0.2.1 True IPAllocated: has 192.0.2.1")
		l.want("y", "192.0.2.2 True IPAllocated: has 192.0.2.2")
	})
}

func TestAFailedWriteIsTriedAgainAndStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := controltest.New()
		var broken atomic.Bool
		broken.Store(true)
		s.PrependReactor("update", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
			m, _ := meta.Accessor(a.(clienttesting.UpdateAction).GetObject())
			return broken.Load() && m.GetName() == "x", nil, errors.New("webhook says no")
		})
		l := newLab(t, s, pool("a", "192.0.2.1-192.0.2.9"))
		defer l.close()
		l.create("x")
		l.create("y")
		time.Sleep(time.Second)
		l.want("x", "")
		l.want("y", "192.0.2.2 True IPAllocated: has 192.0.2.2")
		broken.Store(false)
		time.Sleep(time.Minute)
		l.want("x", "192.0.2.1 True IPAllocated: has 192.0.2.1")
	})
}

func TestThePoolSaysHowManyAddressesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "podway.io/v1alpha1", "kind": "AddressPool", "metadata": map[string]any{"name": "a"}}}
		dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{poolResource: "AddressPoolList"}, obj)
		l := newLab(t, controltest.New(), &model.Node{Name: "n"})
		l.close()
		c := &Controller{Client: l.server, Dynamic: dyn}
		ctx, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		feed := controltest.NewFeed()
		done.Go(func() { _ = c.Run(ctx, feed.C) })
		synctest.Wait()
		feed.Put(pool("a", "192.0.2.1-192.0.2.4"), svc("x", "192.0.2.2"), svc("w", "192.0.2.9"))
		time.Sleep(5 * time.Second)
		got, err := dyn.Resource(poolResource).Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"total": int64(4), "assigned": int64(1), "available": int64(3), "problem": ""}
		if fmt.Sprint(got.Object["status"]) != fmt.Sprint(want) {
			t.Errorf("got %v", got.Object["status"])
		}
		dyn.ClearActions()
		feed.Put(svc("other", "", func(s *model.Service) { s.Type = "ClusterIP" }))
		time.Sleep(time.Minute)
		if n := len(dyn.Actions()); n != 0 {
			t.Errorf("%d writes though nothing changed", n)
		}
		stop()
		done.Wait()
	})
}
