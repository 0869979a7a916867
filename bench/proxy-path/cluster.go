package main

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	mostServices = 60000
	mostBackends = 8000
	servicePort  = 80
	serverPort   = 8080
)

// objects are the cluster of one lane's node: n Services. Those of the last one are real.
type objects struct {
	node     corev1.Node
	services []*corev1.Service
	slices   []*discoveryv1.EndpointSlice
}

// target is the ClusterIP of the last Service.
func target(n int) netip.Addr { return clusterIP(n - 1) }

func clusterIP(i int) netip.Addr {
	i++ // the first address of a range is nobody's
	return netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
}

func makeObjects(n int, node string, nodeAddrs []netip.Prefix, pods netip.Prefix, backends []netip.Addr) objects {
	o := objects{node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{PodCIDR: pods.String(), PodCIDRs: []string{pods.String()}}}}
	for _, a := range nodeAddrs {
		o.node.Status.Addresses = append(o.node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.Addr().String()})
	}
	for i := range n {
		addrs := []netip.Addr{fakePod(2 * i), fakePod(2*i + 1)}
		if i == n-1 {
			addrs = backends
		}
		o.services = append(o.services, service(i))
		o.slices = append(o.slices, slice(i, node, addrs))
	}
	return o
}

// fakePod is an address that nobody has.
func fakePod(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 128 + byte(i>>16), byte(i >> 8), byte(i)})
}

func serviceName(i int) string { return fmt.Sprintf("svc-%d", i) }

func service(i int) *corev1.Service {
	ip := clusterIP(i).String()
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: serviceName(i)}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: servicePort}, {Name: "udp", Protocol: corev1.ProtocolUDP, Port: servicePort}},
	}}
}

func slice(i int, node string, addrs []netip.Addr) *discoveryv1.EndpointSlice {
	yes, port := true, int32(serverPort)
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: serviceName(i) + "-x",
		Labels: map[string]string{discoveryv1.LabelServiceName: serviceName(i)}}}
	for name, proto := range map[string]corev1.Protocol{"tcp": corev1.ProtocolTCP, "udp": corev1.ProtocolUDP} {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &proto, Port: &port})
	}
	for _, a := range addrs {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}})
	}
	return s
}
