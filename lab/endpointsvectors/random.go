package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type dice struct {
	*rand.Rand
	uid int
}

func oneOf[T any](d *dice, of ...T) T { return of[d.IntN(len(of))] }

func (d *dice) meta(name string) metav1.ObjectMeta {
	d.uid++
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(fmt.Sprintf("u%d", d.uid))}
}

func random(seed uint64) *vector {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 6877))}
	v := &vector{}
	for i := range 2 {
		v.Services = append(v.Services, d.service(fmt.Sprintf("svc-%d", i), map[string]string{"app": "a"}))
	}
	for i := range 1 + d.IntN(8) {
		v.Pods = append(v.Pods, d.pod(fmt.Sprintf("pod-%d", i)))
	}
	for i := range 2 {
		name := fmt.Sprintf("hand-%d", i)
		if d.IntN(6) > 0 {
			v.Services = append(v.Services, d.service(name, nil))
		}
		v.ByHand = append(v.ByHand, d.endpoints(name))
	}
	return v
}

func (d *dice) service(name string, selector map[string]string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: d.meta(name), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: selector}}
	s.Spec.ClusterIP = oneOf(d, "10.96.0.1", "10.96.0.1", corev1.ClusterIPNone)
	s.Spec.IPFamilies = oneOf(d, []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, []corev1.IPFamily{corev1.IPv6Protocol})
	if s.Spec.ClusterIP != corev1.ClusterIPNone && s.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		s.Spec.ClusterIP = "fd00:96::1"
	}
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	s.Spec.PublishNotReadyAddresses = d.IntN(4) == 0
	s.Labels = oneOf(d, nil, map[string]string{"team": "red"})
	n := 1 + d.IntN(3)
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		n = d.IntN(3)
	}
	for i := range n {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(80 + i),
			Protocol:   oneOf(d, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP),
			TargetPort: oneOf(d, intstr.FromInt32(8080), intstr.FromString("web"), intstr.FromString("web"), intstr.FromString("admin"))})
	}
	return s
}

func (d *dice) pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: d.meta(name)}
	p.Labels = map[string]string{"app": oneOf(d, "a", "a", "a", "b")}
	p.Spec.NodeName = oneOf(d, "node-0", "node-1")
	if d.IntN(3) == 0 {
		p.Spec.Hostname, p.Spec.Subdomain = name, oneOf(d, "svc-0", "other")
	}
	p.Spec.Containers = []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: oneOf[int32](d, 8080, 8081), Protocol: corev1.ProtocolTCP}}}}
	if d.IntN(2) == 0 {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{Name: "admin", ContainerPort: 9000, Protocol: corev1.ProtocolTCP})
	}
	p.Status.Phase = oneOf(d, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded)
	v4, v6 := corev1.PodIP{IP: fmt.Sprintf("10.0.0.%d", d.uid)}, corev1.PodIP{IP: fmt.Sprintf("fd00::%x", d.uid)}
	p.Status.PodIPs = oneOf(d, []corev1.PodIP{v4}, []corev1.PodIP{v4, v6}, []corev1.PodIP{v6, v4}, []corev1.PodIP{v6})
	p.Status.PodIP = p.Status.PodIPs[0].IP
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: oneOf(d, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)}}
	if d.IntN(6) == 0 {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1e9, 0)}, []string{"shop/wait"}
	}
	return p
}

// endpoints are as people write them: the same address twice, ready here and not ready there, ports in two subsets.
func (d *dice) endpoints(name string) *corev1.Endpoints { //nolint:staticcheck // deprecated, and what this is about
	e := &corev1.Endpoints{ObjectMeta: d.meta(name)}
	e.Labels = oneOf(d, nil, map[string]string{"a": "b"}, map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"},
		map[string]string{"endpointslice.kubernetes.io/skip-mirror": "false"}, map[string]string{"service.kubernetes.io/headless": ""},
		map[string]string{"endpoints.kubernetes.io/managed-by": "endpoint-controller", "kubernetes.io/service-name": "wrong"})
	e.Annotations = oneOf(d, nil, nil, map[string]string{"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}, map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"},
		map[string]string{"endpoints.kubernetes.io/over-capacity": "truncated"})
	for range 1 + d.IntN(3) {
		s := corev1.EndpointSubset{}
		for i := range d.IntN(3) {
			s.Ports = append(s.Ports, corev1.EndpointPort{Name: fmt.Sprintf("p%d", i), Port: oneOf[int32](d, 80, 81), Protocol: corev1.ProtocolTCP})
		}
		for range d.IntN(4) {
			s.Addresses = append(s.Addresses, d.address())
		}
		for range d.IntN(3) {
			s.NotReadyAddresses = append(s.NotReadyAddresses, d.address())
		}
		e.Subsets = append(e.Subsets, s)
	}
	if d.IntN(40) == 0 { // more than are mirrored
		s := &e.Subsets[0]
		for i := range 1100 {
			s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.9.%d.%d", i/250, 1+i%250)})
		}
	}
	return e
}

func (d *dice) address() corev1.EndpointAddress {
	a := corev1.EndpointAddress{IP: oneOf(d, "192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2")}
	a.Hostname = oneOf(d, "", "", "", "h")
	if d.IntN(3) == 0 {
		a.NodeName = new("node-0")
	}
	if n := d.IntN(4); n < 2 {
		a.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: fmt.Sprintf("pod-%d", n), UID: types.UID(fmt.Sprintf("pod-uid-%d", n))}
	}
	return a
}
