package apiserver

import (
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func service(name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
}

func start(t *testing.T, contentType string) (*Server, kubernetes.Interface) {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL(), ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType}})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// seen is the objects that an informer has told of.
type seen struct {
	mu   sync.Mutex
	have map[string]string
}

func (s *seen) set(o any, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	svc := o.(*corev1.Service)
	if gone {
		delete(s.have, svc.Name)
		return
	}
	s.have[svc.Name] = svc.Spec.ClusterIP
}

func (s *seen) await(t *testing.T, want map[string]string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		ok := len(s.have) == len(want)
		for k, v := range want {
			ok = ok && s.have[k] == v
		}
		s.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("have %v, want %v", s.have, want)
		}
	}
}

func TestAnInformerSeesWhatIsPutAndDeleted(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			s, c := start(t, contentType)
			if err := s.Put(service("cart", "10.96.0.7"), service("web", "10.96.0.8")); err != nil {
				t.Fatal(err)
			}
			f := informers.NewSharedInformerFactory(c, 0)
			inf, have := f.Core().V1().Services().Informer(), &seen{have: map[string]string{}}
			_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { have.set(o, false) },
				UpdateFunc: func(_, o any) { have.set(o, false) }, DeleteFunc: func(o any) { have.set(o, true) }})
			if err != nil {
				t.Fatal(err)
			}
			f.Start(t.Context().Done())
			have.await(t, map[string]string{"cart": "10.96.0.7", "web": "10.96.0.8"})
			if err := s.Put(service("cart", "10.96.0.9"), service("new", "10.96.0.10")); err != nil {
				t.Fatal(err)
			}
			if err := s.Delete(service("web", "")); err != nil {
				t.Fatal(err)
			}
			have.await(t, map[string]string{"cart": "10.96.0.9", "new": "10.96.0.10"})
			lists := s.Lists()
			s.Forget()
			if err := s.Delete(service("new", "")); err != nil {
				t.Fatal(err)
			}
			have.await(t, map[string]string{"cart": "10.96.0.9"})
			if s.Lists() <= lists {
				t.Errorf("%d lists, as before the server forgot", lists)
			}
		})
	}
}

func TestListsAreSelected(t *testing.T) {
	s, c := start(t, "application/vnd.kubernetes.protobuf")
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Phase: phase}}
	}
	if err := s.Put(service("a", ""), service("b", ""), pod("p", corev1.PodRunning), pod("q", corev1.PodFailed), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	list, err := c.CoreV1().Services("").List(t.Context(), metav1.ListOptions{LabelSelector: "app!=a"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" || list.ResourceVersion == "" {
		t.Errorf("got %v, %v", list, err)
	}
	pods, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase!=Failed"})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "p" {
		t.Errorf("got %v, %v", pods, err)
	}
	slicesOf, err := c.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(slicesOf.Items) != 0 {
		t.Errorf("got %v, %v", slicesOf, err)
	}
	resources, err := c.Discovery().ServerResourcesForGroupVersion("discovery.k8s.io/v1")
	if err != nil || !slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == "endpointslices" && r.Namespaced }) {
		t.Errorf("got %v, %v", resources, err)
	}
}
