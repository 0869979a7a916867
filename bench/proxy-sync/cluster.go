package main

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The node whose rules are measured, and the number of nodes that endpoints are spread over.
const (
	nodeName = "node-0"
	nodes    = 100
	mostKube = 20  // changes of kube-proxy per round
	mostOurs = 500 // of podway
)

var serviceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}

func thisNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24", "fd00:244::/64"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "192.168.0.1"}, {Type: corev1.NodeInternalIP, Address: "fd00:192::1"}}}}
}

func name(i int) string { return fmt.Sprintf("svc-%d", i) }

func clusterIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
}

// service is Service i.
func service(i int) *corev1.Service {
	ip := clusterIP(i).String()
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name(i)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": name(i)},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}}}
}

// slice is the endpoints of Service i; every round has another one in the middle.
func slice(i, endpoints, round int) *discoveryv1.EndpointSlice {
	port, tcp, none := int32(8080), corev1.ProtocolTCP, ""
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name(i) + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: name(i)}},
		Ports:      []discoveryv1.EndpointPort{{Name: &none, Protocol: &tcp, Port: &port}}}
	for e := range endpoints {
		s.Endpoints = append(s.Endpoints, endpoint(i*endpoints+e, e == endpoints/2, round))
	}
	return s
}

func endpoint(n int, moves bool, round int) discoveryv1.Endpoint {
	addr := netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)})
	if moves && round > 0 {
		addr = netip.AddrFrom4([4]byte{10, 192, byte(round >> 8), byte(round)})
	}
	yes, no, node := true, false, fmt.Sprintf("node-%d", n%nodes)
	return discoveryv1.Endpoint{Addresses: []string{addr.String()}, NodeName: &node,
		Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no}}
}

// changed is the Service that changes in a round, from 1 on.
func changed(round, services int) int { return round * 131 % services }
