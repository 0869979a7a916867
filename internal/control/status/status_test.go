package status

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podway/podway/internal/control/controltest"
	"github.com/podway/podway/internal/model"
)

func front(edit ...func(*model.Service)) *model.Service {
	s := &model.Service{Name: DefaultConfig.Service, Type: model.LoadBalancer, IPFamilies: []string{"IPv4"}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func at(addr string) func(*model.Service) {
	return func(s *model.Service) {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, model.LoadBalancerIP{Addr: netip.MustParseAddr(addr)})
	}
}

func ofType(t model.ServiceType) func(*model.Service) { return func(s *model.Service) { s.Type = t } }

func class(name, controller string, def bool) *model.IngressClass {
	return &model.IngressClass{Name: name, Controller: controller, Default: def}
}

func ingress(name, class string) *model.Ingress {
	return &model.Ingress{Name: model.N("shop", name), Class: class}
}

func node(name string, ready bool, addrs ...string) *model.Node {
	n := &model.Node{Name: name, Ready: ready}
	for _, a := range addrs {
		n.Addrs = append(n.Addrs, netip.MustParseAddr(a))
	}
	return n
}

func endpointsOn(nodes ...string) *model.EndpointSlice {
	s := &model.EndpointSlice{Name: model.N("kube-system", "podway-ingress-1"), Service: DefaultConfig.Service}
	for _, n := range nodes {
		s.Endpoints = append(s.Endpoints, model.Endpoint{Node: n, Ready: true})
	}
	return s
}

func TestAddressesAreWhereClientsComeIn(t *testing.T) {
	for name, c := range map[string]struct {
		objs []any
		want string
	}{
		"the LoadBalancer's":       {[]any{front(at("192.0.2.1"), at("2001:db8::1")), node("a", true, "10.0.0.1")}, "192.0.2.1 2001:db8::1"},
		"none while it is pending": {[]any{front(), node("a", true, "10.0.0.1"), endpointsOn("a")}, ""},
		"none without the Service": {[]any{node("a", true, "10.0.0.1")}, ""},
		"of nodes with the proxy otherwise": {[]any{front(ofType(model.NodePort)), node("a", true, "10.0.0.1"), node("b", false, "10.0.0.2"),
			node("c", true, "10.0.0.3", "203.0.113.3"), node("d", true, "10.0.0.4"), endpointsOn("c", "b", "a")}, "10.0.0.1 203.0.113.3"},
	} {
		t.Run(name, func(t *testing.T) {
			b := model.NewBuilder(nil)
			for _, o := range c.objs {
				b.Put(o)
			}
			if d := cmp.Diff(c.want, strings.Join(Addresses(b.Snapshot(time.Now()), DefaultConfig.Service), " ")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOnlyIngressesOfPodwaysClassesAreWritten(t *testing.T) {
	b := model.NewBuilder(nil)
	legacy := ingress("legacy", "podway")
	legacy.Annotations = map[string]string{"kubernetes.io/ingress.class": "podway"}
	done := ingress("done", "fast")
	done.Addresses = []string{"192.0.2.1"}
	for _, o := range []any{front(at("192.0.2.1")), class("fast", "podway.io/ingress", true), class("other", "example.com/x", false),
		ingress("named", "fast"), ingress("default", ""), ingress("foreign", "other"), ingress("unknown", "nowhere"), legacy, done} {
		b.Put(o)
	}
	got := map[string]bool{}
	for n := range Desired(b.Snapshot(time.Now()), DefaultConfig) {
		got[n.Name] = true
	}
	if d := cmp.Diff(map[string]bool{"named": true, "default": true, "legacy": true}, got); d != "" {
		t.Error(d)
	}
	b.Put(class("fast", "podway.io/ingress", false))
	if _, ok := Desired(b.Snapshot(time.Now()), DefaultConfig)[model.N("shop", "default")]; ok {
		t.Error("no class is the default, and an Ingress without one is written")
	}
}

func TestTheStatusFollowsTheAddressAndIsNeverCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := controltest.New()
		ctx, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		feed := controltest.NewFeed()
		if err := feed.Follow(ctx, s, &done); err != nil {
			t.Fatal(err)
		}
		c := &Controller{Client: s}
		done.Go(func() { _ = c.Run(ctx, feed.C) })
		name := "fast"
		api := s.NetworkingV1().Ingresses("shop")
		if _, err := api.Create(ctx, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: networkingv1.IngressSpec{IngressClassName: &name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		says := func() string {
			time.Sleep(time.Second)
			got, err := api.Get(ctx, "web", metav1.GetOptions{})
			return fmt.Sprint(got.Status.LoadBalancer.Ingress, err)
		}
		feed.Put(class("fast", "podway.io/ingress", false), front(at("192.0.2.1")))
		if got := says(); got != "[{192.0.2.1  []}] <nil>" {
			t.Errorf("got %s", got)
		}
		feed.Put(front(at("192.0.2.2")))
		if got := says(); got != "[{192.0.2.2  []}] <nil>" {
			t.Errorf("after a move %s", got)
		}
		feed.Put(front())
		if got := says(); got != "[{192.0.2.2  []}] <nil>" {
			t.Errorf("while the address is pending %s", got)
		}
		s.ClearActions()
		feed.Put(front(at("192.0.2.2")), node("a", true, "10.0.0.1"))
		time.Sleep(time.Hour)
		if n := s.Writes("patch", "ingresses"); n != 0 {
			t.Errorf("%d writes though nothing changed", n)
		}
		stop()
		done.Wait()
	})
}
