package endpointslice

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podway/podway/internal/model"
)

func allNodes() (out []any) {
	for n := range nodes().Values() {
		out = append(out, n)
	}
	return out
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAReadyPodIsWrittenWithinTheBatchWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.put(append(allNodes(), cart(), pod(0, func(p *model.Pod) { p.Ready = false }))...)
		settle(time.Second)
		if got := text(l.server.slices(t)); got != "IPv4 http/TCP/8080/: cart-0000=10.244.0.1\n" {
			t.Fatalf("got %s", got)
		}
		since := time.Now()
		l.put(pod(0, func(p *model.Pod) { p.ReadySince = since }))
		synctest.Wait()
		if got := l.server.slices(t); text(got) != "IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving\n" ||
			got[0].Annotations[annotationTrigger] != since.UTC().Format(time.RFC3339Nano) {
			t.Errorf("not written at once: %s%v", text(got), got[0].Annotations)
		}
		settle(time.Second)
		ep, err := l.server.CoreV1().Endpoints("shop").Get(context.Background(), "cart", metav1.GetOptions{})
		if err != nil || len(ep.Subsets) != 1 || len(ep.Subsets[0].Addresses) != 1 || ep.Annotations[annotationTrigger] == "" {
			t.Errorf("Endpoints %+v, %v", ep, err)
		}
	})
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		l.put(append(allNodes(), cart(), pod(0), pod(1))...)
		settle(time.Second)
		l.server.ClearActions()
		l.put(pod(0, func(p *model.Pod) { p.ResourceVersion = "77" }))
		settle(time.Minute)
		l.close()
		again := newLab(t, l.server, nil)
		again.put(append(allNodes(), cart(), pod(0), pod(1))...)
		settle(time.Minute)
		again.close()
		for _, a := range l.server.Actions() {
			if v := a.GetVerb(); v != "list" && v != "watch" {
				t.Errorf("%s of %s", v, a.GetResource().Resource)
			}
		}
	})
}

func TestManyPodsAtOnceAreFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.put(append(allNodes(), cart())...)
		settle(time.Second)
		l.server.ClearActions()
		for i := range 100 {
			l.put(pod(i))
			time.Sleep(100 * time.Microsecond)
		}
		settle(time.Second)
		if got := l.server.slices(t); len(got) != 1 || len(got[0].Endpoints) != 100 {
			t.Fatalf("got %s", text(got))
		}
		if n := l.writes("update", "endpointslices"); n > 4 {
			t.Errorf("100 Pods within 10 ms took %d writes", n)
		}
	})
}

func TestSlicesThatOthersEditOrDeleteAreRepairedAndForeignOnesLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		foreign := encodeSlice(&model.EndpointSlice{Name: model.N("shop", "byhand"), Service: model.N("shop", "cart"),
			ManagedBy: "somebody", Labels: map[string]string{labelServiceName: "cart", labelManagedBy: "somebody"}, AddressType: ipv4})
		api := s.DiscoveryV1().EndpointSlices("shop")
		if _, err := api.Create(context.Background(), foreign, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l := newLab(t, s, nil)
		defer l.close()
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		want := "IPv4:\nIPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving\n"
		if got := text(s.slices(t)); got != want {
			t.Fatalf("before: %s", got)
		}
		name := s.slices(t)[1].Name.Name
		edited, _ := api.Get(context.Background(), name, metav1.GetOptions{})
		edited.Endpoints = nil
		if _, err := api.Update(context.Background(), edited, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		if d := cmp.Diff(want, text(s.slices(t))); d != "" {
			t.Errorf("after the edit: %s", d)
		}
		if err := api.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		if d := cmp.Diff(want, text(s.slices(t))); d != "" {
			t.Errorf("after the delete: %s", d)
		}
	})
}

func TestAConflictIsSolvedFromTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		l.feed.Mute(true) // the controller's view stays behind
		api := l.server.DiscoveryV1().EndpointSlices("shop")
		s, _ := api.Get(context.Background(), l.server.slices(t)[0].Name.Name, metav1.GetOptions{})
		s.Endpoints = nil
		if _, err := api.Update(context.Background(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.put(pod(1))
		settle(time.Second)
		want := "IPv4 http/TCP/8080/: cart-0000=10.244.0.1,ready,serving cart-0001=10.244.0.2,ready,serving\n"
		if d := cmp.Diff(want, text(l.server.slices(t))); d != "" {
			t.Errorf("%s", d)
		}
		if len(l.events.Events) > 0 {
			t.Errorf("a conflict is no event: %s", <-l.events.Events)
		}
	})
}

func TestOneServiceThatCannotBeWrittenDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var broken atomic.Bool
		broken.Store(true)
		s.PrependReactor("create", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
			m, _ := a.(clienttesting.CreateAction).GetObject().(metav1.Object)
			return broken.Load() && strings.HasPrefix(m.GetGenerateName(), "cart-"), nil, errors.New("webhook says no")
		})
		l := newLab(t, s, nil)
		defer l.close()
		other := cart(func(v *model.Service) { v.Name.Name = "other" })
		l.put(append(allNodes(), cart(), other, pod(0))...)
		settle(time.Second)
		if got := s.slices(t); len(got) != 1 || got[0].Service.Name != "other" {
			t.Errorf("got %s", text(got))
		}
		if e := <-l.events.Events; !strings.Contains(e, "FailedToUpdateEndpointSlices") || !strings.Contains(e, "webhook says no") {
			t.Errorf("event %q", e)
		}
		broken.Store(false)
		settle(time.Minute)
		if got := s.slices(t); len(got) != 2 {
			t.Errorf("it is retried: %s", text(got))
		}
	})
}

func TestATerminatingNamespaceIsLeftInPeace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := apierrors.NewForbidden(corev1.Resource("endpointslices"), "x", errors.New("namespace ends"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return true, nil, err
		})
		l := newLab(t, s, nil)
		defer l.close()
		l.put(cart())
		settle(time.Hour)
		if n := l.writes("create", "endpointslices"); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestSlicesAndEndpointsGoWithTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		l.delete(cart())
		settle(time.Second)
		if got := l.server.slices(t); len(got) != 0 {
			t.Errorf("slices left: %s", text(got))
		}
		if _, err := l.server.CoreV1().Endpoints("shop").Get(context.Background(), "cart", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("Endpoints: %v", err)
		}
		settle(time.Minute)
		l.ctl.mu.Lock()
		defer l.ctl.mu.Unlock()
		if len(l.ctl.services)+len(l.ctl.endpoints.objects) != 0 {
			t.Errorf("still remembered: %v %v", l.ctl.services, l.ctl.endpoints.objects)
		}
	})
}

func TestAfterAStartTheSlicesOfALateServiceLiveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		l.close()
		l.server.ClearActions()
		again := newLab(t, l.server, nil)
		defer again.close()
		again.put(append(allNodes(), pod(0))...) // the Service is not there yet
		settle(2 * time.Second)
		again.put(cart())
		settle(time.Minute)
		if n := again.writes("delete", "endpointslices"); n != 0 || len(again.server.slices(t)) != 1 {
			t.Errorf("%d deletes; left: %s", n, text(again.server.slices(t)))
		}
	})
}

func TestSlicesOfKubernetesOwnControllerAreTakenOverOnlyWhenTold(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			var c cluster
			c.apply(Desired(cart(), pods(2), nodes(), nil))
			old := encodeSlice(c.list()[0])
			old.Labels = map[string]string{labelServiceName: "cart", labelManagedBy: kubeManagedBy}
			if _, err := s.DiscoveryV1().EndpointSlices("shop").Create(context.Background(), old, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			l := newLab(t, s, func(c *Controller) { c.Adopt = adopt })
			defer l.close()
			l.put(append(allNodes(), cart(), pod(0), pod(1))...)
			settle(time.Second)
			got := s.slices(t)
			if adopt && (len(got) != 1 || got[0].ManagedBy != ManagedBy || got[0].Name.Name != old.Name) {
				t.Errorf("not taken over: %+v", got)
			}
			if !adopt && (len(got) != 2 || l.writes("update", "endpointslices") != 0) {
				t.Errorf("touched: %+v", got)
			}
		})
	}
}

// Conformance asks for the labels of Kubernetes' own controllers (e2e: "EndpointSlice should create and delete EndpointSlices
// for a Service with a selector that matches no pods").
func TestWithKubernetesNamesLabelsAreThoseOfItsOwnControllers(t *testing.T) {
	for _, before := range []names{podwayNames, kubernetesNames} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			var c cluster
			c.apply(before.desired(cart(), pods(1), nodes(), nil, nil))
			if _, err := s.DiscoveryV1().EndpointSlices("shop").Create(context.Background(), encodeSlice(c.list()[0]), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			l := newLab(t, s, func(c *Controller) { c.KubernetesNames = true })
			defer l.close()
			byHand := cart(func(v *model.Service) { v.Name.Name, v.Selector, v.UID = "byhand", nil, "byhand-uid" })
			l.put(append(allNodes(), cart(), byHand, pod(0), pod(1))...)
			ep := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "byhand", Namespace: "shop"}, Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}}}
			if _, err := s.CoreV1().Endpoints("shop").Create(context.Background(), ep, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			settle(time.Second)
			got := map[string]*model.EndpointSlice{}
			for _, sl := range s.slices(t) {
				got[sl.Service.Name] = sl
			}
			cart, mirror := got["cart"], got["byhand"]
			if len(s.slices(t)) != 2 || cart == nil || mirror == nil {
				t.Fatalf("slices: %s", text(s.slices(t)))
			}
			if cart.Labels[labelManagedBy] != "endpointslice-controller.k8s.io" || cart.Name.Name != c.list()[0].Name.Name || len(cart.Endpoints) != 2 {
				t.Errorf("got %+v", cart)
			}
			if mirror.Labels[labelManagedBy] != "endpointslicemirroring-controller.k8s.io" || encodeSlice(mirror).OwnerReferences[0].Kind != "Endpoints" {
				t.Errorf("mirrored: %+v", mirror)
			}
			own, err := s.CoreV1().Endpoints("shop").Get(context.Background(), "cart", metav1.GetOptions{})
			if err != nil || own.Labels[labelEndpointsBy] != "endpoint-controller" {
				t.Errorf("Endpoints: %v, %v", own, err)
			}
			l.server.ClearActions()
			settle(time.Minute)
			if again := l.writes("update", "endpointslices"); again != 0 {
				t.Errorf("written %d times more though nothing changed", again)
			}
		})
	}
}

func TestEndpointsMadeByHandAreMirroredAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := newLab(t, s, nil)
		defer l.close()
		l.put(cart(func(v *model.Service) { v.Selector = nil }))
		api := s.CoreV1().Endpoints("shop")
		ep := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "cart", Namespace: "shop"}, Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}, {IP: "rubbish"}}, Ports: []corev1.EndpointPort{{Name: "http", Port: 80, Protocol: "TCP"}}}}}
		ep, err := api.Create(context.Background(), ep, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		if got := s.slices(t); text(got) != "IPv4 http/TCP/80/: =192.0.2.1,ready,serving\n" || got[0].ManagedBy != MirroredBy {
			t.Errorf("got %s", text(got))
		}
		ep.Subsets[0].Addresses[0].IP = "192.0.2.9"
		if _, err = api.Update(context.Background(), ep, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		if got := s.slices(t); text(got) != "IPv4 http/TCP/80/: =192.0.2.9,ready,serving\n" {
			t.Errorf("after the update %s", text(got))
		}
		if err = api.Delete(context.Background(), "cart", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		if got := s.slices(t); len(got) != 0 {
			t.Errorf("after the delete %s", text(got))
		}
	})
}

func TestTwoWritersThatDisagreeSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		api := l.server.DiscoveryV1().EndpointSlices("shop")
		l.server.ClearActions()
		name := l.server.slices(t)[0].Name.Name
		for range 3000 { // another controller that empties the slice, a hundred times a second, half a minute long
			if s, err := api.Get(context.Background(), name, metav1.GetOptions{}); err == nil && len(s.Endpoints) > 0 {
				s.Endpoints = nil
				_, _ = api.Update(context.Background(), s, metav1.UpdateOptions{})
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := l.writes("update", "endpointslices"); n > 40 {
			t.Errorf("%d writes in half a minute", n)
		}
		if len(l.events.Events) != 1 || !strings.Contains(<-l.events.Events, "EndpointSliceContended") {
			t.Error("one event says so")
		}
	})
}

func TestAWriteThatNeverComesBackIsLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.feed.Mute(true)
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		api := l.server.DiscoveryV1().EndpointSlices("shop")
		if err := api.Delete(context.Background(), l.server.slices(t)[0].Name.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle(time.Minute)
		if got := l.server.slices(t); len(got) != 1 || len(got[0].Endpoints) != 1 {
			t.Errorf("got %s", text(got))
		}
	})
}

func TestAnEchoThatOvertakesItsAnswerIsNoForeignWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := newLab(t, s, nil)
		defer l.close()
		slow := &slowAnswers{Interface: s, wait: 20 * time.Millisecond}
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		l.ctl.mu.Lock()
		l.ctl.Client = slow
		l.ctl.mu.Unlock()
		for i := range 50 {
			l.put(pod(0, func(p *model.Pod) { p.Ready = i%2 == 1 }))
			settle(50 * time.Millisecond)
		}
		if n := l.writes("update", "endpointslices"); n != 50 {
			t.Errorf("50 flips took %d writes", n)
		}
		if len(l.events.Events) > 0 {
			t.Errorf("event %s", <-l.events.Events)
		}
	})
}
