package endpointslice

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podway/podway/internal/model"
)

func TestWhileTheWatchIsBehindOwnWritesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.put(append(allNodes(), cart(), pod(0), pod(1))...)
		settle(time.Second)
		l.server.ClearActions()
		l.feed.Mute(true) // nothing that is written comes back
		for i := range 10 {
			l.put(pod(0, func(p *model.Pod) { p.Ready = i%2 == 1 }))
			settle(100 * time.Millisecond)
		}
		if n := l.writes("update", "endpointslices"); n != 10 || len(l.events.Events) > 0 {
			t.Errorf("ten flips took %d updates, %d events", n, len(l.events.Events))
		}
		l.server.ClearActions()
		l.feed.Mute(false)
		l.put(pod(1, func(p *model.Pod) { p.ResourceVersion = "99" })) // nothing of it concerns slices
		settle(time.Minute)
		if n := l.writes("update", "endpointslices"); n != 0 || len(l.server.slices(t)) != 1 {
			t.Errorf("afterwards %d updates: %s", n, text(l.server.slices(t)))
		}
	})
}

func TestTheTimeOfTheChangeStandsOnTheSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		l.put(allNodes()...)
		settle(time.Second)
		stamp := func(want time.Time) {
			t.Helper()
			settle(time.Second)
			got, has := l.server.slices(t)[0].Annotations[annotationTrigger]
			if has == want.IsZero() || has && got != want.UTC().Format(time.RFC3339Nano) {
				t.Errorf("annotation %q, want %s", got, want)
			}
		}
		made, first, second := time.Now(), time.Now().Add(time.Minute), time.Now().Add(2*time.Minute)
		l.put(cart(func(s *model.Service) { s.Created = made }))
		stamp(made)
		l.put(pod(1, func(p *model.Pod) { p.ReadySince = second }), pod(0, func(p *model.Pod) { p.ReadySince = first }))
		stamp(first) // the oldest of what one write carries
		l.put(pod(2, func(p *model.Pod) { p.ReadySince, p.Labels = first, nil }))
		stamp(first) // not selected: nothing is written
		l.put(pod(2, func(p *model.Pod) { p.ReadySince = first }))
		stamp(time.Time{}) // selected now, ready long since
		l.delete(pod(2))
		stamp(time.Time{})
	})
}

func TestAFailureIsOneEventUntilAWriteSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var fails error
		s.PrependReactor("update", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) { return fails != nil, nil, fails })
		l := newLab(t, s, func(c *Controller) { c.NoEndpoints = true })
		defer l.close()
		l.put(append(allNodes(), cart(), pod(0))...)
		settle(time.Second)
		quota := apierrors.NewForbidden(corev1.Resource("endpointslices"), "x", errors.New("exceeded quota"))
		for round := range 2 {
			fails = quota
			l.put(pod(0, func(p *model.Pod) { p.Ready = round == 1 }))
			settle(10 * time.Minute)
			if n := l.writes("update", "endpointslices"); n < 15 || n > 60 {
				t.Errorf("round %d: %d tries in ten minutes", round, n)
			}
			if len(l.events.Events) != 1 || !strings.Contains(<-l.events.Events, "exceeded quota") {
				t.Errorf("round %d: want one event", round)
			}
			fails = nil
			settle(time.Minute)
			if got := text(l.server.slices(t)); strings.Contains(got, "ready") != (round == 1) {
				t.Errorf("round %d: in the end %s", round, got)
			}
		}
	})
}

func TestWhatIsNotMirroredIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := newLab(t, s, nil)
		defer l.close()
		l.put(cart(func(v *model.Service) { v.Selector = nil }))
		ep := &corev1.Endpoints{} //nolint:staticcheck // deprecated, and still mirrored
		ep.Namespace, ep.Name = "shop", "cart"
		sub := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: 80, Protocol: corev1.ProtocolTCP}}} //nolint:staticcheck // as above
		for i := range 1100 {
			sub.Addresses = append(sub.Addresses, corev1.EndpointAddress{IP: pod(i).Addrs[0].String()}) //nolint:staticcheck // as above
		}
		sub.Addresses = append(sub.Addresses, corev1.EndpointAddress{IP: "nonsense"}) //nolint:staticcheck // as above
		ep.Subsets = append(ep.Subsets, sub)
		if _, err := s.CoreV1().Endpoints("shop").Create(t.Context(), ep, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle(time.Minute)
		n := 0
		for _, sl := range s.slices(t) {
			n += len(sl.Endpoints)
		}
		if n != MaxMirrored {
			t.Errorf("%d endpoints are mirrored", n)
		}
		for _, want := range []string{"InvalidIPAddress 1 ", "TooManyAddressesToMirror at most 1000 addresses of a subset are mirrored to EndpointSlices: 100 are not"} {
			if len(l.events.Events) == 0 {
				t.Fatalf("no event %s", want)
			}
			if e := <-l.events.Events; !strings.Contains(e, want) {
				t.Errorf("event %q, want %q", e, want)
			}
		}
		if len(l.events.Events) > 0 {
			t.Errorf("one event too many: %s", <-l.events.Events)
		}
	})
}
