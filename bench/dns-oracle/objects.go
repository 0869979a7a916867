package main

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// state is the objects of one random case.
type state struct {
	r          *rand.Rand
	namespaces []string
	services   []*corev1.Service
	slices     []*discoveryv1.EndpointSlice
	pods       []*corev1.Pod
}

// random makes the objects of a case.
func random(r *rand.Rand) *state {
	s := &state{r: r}
	for i := range 1 + r.IntN(3) {
		s.namespaces = append(s.namespaces, fmt.Sprint("ns-", i))
	}
	for i := range 2 + r.IntN(10) {
		s.service(i)
	}
	for i := range r.IntN(5) {
		s.pods = append(s.pods, &corev1.Pod{ObjectMeta: s.meta(fmt.Sprint("pod-", i), pick(r, s.namespaces)), Status: corev1.PodStatus{
			Phase: pick(r, []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded}),
			PodIP: s.podIP(), PodIPs: nil}})
		p := s.pods[len(s.pods)-1]
		p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	return s
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (s *state) chance(percent int) bool { return s.r.IntN(100) < percent }

func (s *state) meta(name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// podIP is one of few addresses, so that Services share some.
func (s *state) podIP() string { return fmt.Sprintf("10.244.%d.%d", s.r.IntN(3), 1+s.r.IntN(20)) }

func (s *state) podIP6() string { return fmt.Sprintf("fd00:10:244::%x", 1+s.r.IntN(20)) }

var portNames = []string{"http", "https", "dns", "web-2", ""}

func (s *state) service(i int) {
	svc := &corev1.Service{ObjectMeta: s.meta(fmt.Sprint("svc-", i), pick(s.r, s.namespaces)), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	s.services = append(s.services, svc)
	names := s.r.Perm(len(portNames))[:1+s.r.IntN(3)]
	for k, n := range names {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: portNames[n], Protocol: pick(s.r, []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}),
			Port: int32(80 + 1000*k + n)})
	}
	switch p := s.r.IntN(100); {
	case p < 15:
		svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: s.target()}
	case p < 55:
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		svc.Spec.PublishNotReadyAddresses = s.chance(20)
		s.endpoints(svc)
	default:
		v4, v6 := fmt.Sprintf("10.96.1.%d", 1+i), fmt.Sprintf("fd00:10:96::%x", 1+i)
		svc.Spec.ClusterIPs = pick(s.r, [][]string{{v4}, {v4}, {v6}, {v4, v6}, {v6, v4}})
		svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
		if s.chance(70) {
			s.endpoints(svc)
		}
	}
}

func (s *state) target() string {
	return pick(s.r, []string{"www.example.com", "nowhere.example.com", "svc-0.ns-0.svc.cluster.local", "svc-1.ns-0.svc.cluster.local", "missing.ns-0.svc.cluster.local",
		"Mixed.Example.COM", "192.0.2.7"})
}

// endpoints makes up to three slices of a Service.
func (s *state) endpoints(svc *corev1.Service) {
	for k := range s.r.IntN(4) {
		sl := &discoveryv1.EndpointSlice{ObjectMeta: s.meta(fmt.Sprint(svc.Name, "-", k), svc.Namespace), AddressType: discoveryv1.AddressTypeIPv4}
		sl.Labels = map[string]string{discoveryv1.LabelServiceName: svc.Name}
		if svc.Spec.ClusterIP == corev1.ClusterIPNone {
			sl.Labels[corev1.IsHeadlessService] = ""
		}
		if s.chance(25) {
			sl.AddressType = discoveryv1.AddressTypeIPv6
		}
		for _, p := range svc.Spec.Ports {
			name, proto, port := p.Name, p.Protocol, p.Port+8000
			sl.Ports = append(sl.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &proto, Port: &port})
		}
		n := s.r.IntN(6)
		if s.chance(6) {
			n = 20 + s.r.IntN(60) // does not fit into 512 bytes
		}
		for e := range n {
			sl.Endpoints = append(sl.Endpoints, s.endpoint(svc, sl.AddressType, fmt.Sprintf("%s-%d", svc.Name, k*100+e), n))
		}
		s.slices = append(s.slices, sl)
	}
}

func (s *state) endpoint(svc *corev1.Service, family discoveryv1.AddressType, name string, n int) discoveryv1.Endpoint {
	addr := s.podIP()
	if n >= 20 {
		addr = fmt.Sprintf("10.245.%d.%d", s.r.IntN(200), 1+s.r.IntN(250))
	}
	if family == discoveryv1.AddressTypeIPv6 {
		addr = s.podIP6()
	}
	e := discoveryv1.Endpoint{Addresses: []string{addr}}
	switch s.r.IntN(5) {
	case 0: // nil: ready
	case 1:
		ready := svc.Spec.PublishNotReadyAddresses // so the API says it
		e.Conditions.Ready = &ready
	default:
		ready := true
		e.Conditions.Ready = &ready
	}
	if s.chance(50) {
		e.Hostname = &name
	}
	return e
}

// objects are all of them as the API server takes them.
func (s *state) objects() (out []runtime.Object) {
	for _, n := range s.namespaces {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	for _, o := range s.services {
		out = append(out, o)
	}
	for _, o := range s.slices {
		out = append(out, o)
	}
	for _, o := range s.pods {
		out = append(out, o)
	}
	return out
}

// newRand is the source of all chance in a case.
func newRand(seed uint64, number int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(number))) }
