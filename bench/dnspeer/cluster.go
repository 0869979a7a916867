// Package dnspeer is what podway's DNS benchmarks and its differential test share: a generated cluster and questions about
// it, the servers that podway is measured beside (CoreDNS, built from the module bench/coredns, and knot), processes pinned
// to a processor, and a generator of load. It measures nothing by itself.
package dnspeer

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Cluster is a generated cluster: every tenth Service is headless, the others have three endpoints each.
type Cluster struct {
	Services  int
	Endpoints int
}

// The sizes that benchmarks are about.
var (
	Medium = Cluster{Services: 5_000, Endpoints: 16_000}
	Large  = Cluster{Services: 20_000, Endpoints: 62_000}
)

// perClusterIP is how many endpoints a Service with a ClusterIP has.
const perClusterIP = 3

func (c Cluster) spaces() int { return max(1, c.Services/50) }

func (c Cluster) namespace(i int) string { return fmt.Sprint("ns-", i%c.spaces()) }

func (c Cluster) name(i int) string { return fmt.Sprint("svc-", i) }

func (c Cluster) headless(i int) bool { return i%10 == 0 }

// perHeadless is how many endpoints a headless Service has.
func (c Cluster) perHeadless() int {
	n := (c.Services + 9) / 10
	return (c.Endpoints - perClusterIP*(c.Services-n)) / n
}

func (c Cluster) clusterIP(i int) string {
	return fmt.Sprintf("10.%d.%d.%d", 96+i/62_500, i/250%250, 1+i%250)
}

func (c Cluster) podIP(i, e int) string {
	n := i*8 + e
	return fmt.Sprintf("10.%d.%d.%d", 128+n/62_500, n/250%250, 1+n%250)
}

// Objects are the API objects of the cluster, as much as a real one's say.
func (c Cluster) Objects() (out []runtime.Object) {
	for i := range c.spaces() {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns-", i)}})
	}
	for i := range c.Services {
		out = append(out, c.Service(i, 0), c.Slice(i, 0))
	}
	return out
}

func (c Cluster) meta(i int, name string) metav1.ObjectMeta {
	app := c.name(i)
	return metav1.ObjectMeta{Namespace: c.namespace(i), Name: name, UID: types.UID(fmt.Sprintf("5d2f3a0c-0000-4000-8000-%012d", i)),
		CreationTimestamp: metav1.Unix(1_700_000_000, 0), Generation: 1,
		Labels:      map[string]string{"app": app, "app.kubernetes.io/name": app, "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": app + "-1.2.3"},
		Annotations: map[string]string{"meta.helm.sh/release-name": app, "meta.helm.sh/release-namespace": c.namespace(i)},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:ports":{},"f:selector":{}}}`)}}}}
}

// Service is Service i in a given state: each round has other port numbers, so that its SRV records change.
func (c Cluster) Service(i, round int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: c.meta(i, c.name(i)), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP,
		Selector: map[string]string{"app": c.name(i)}, ClusterIP: c.clusterIP(i), SessionAffinity: corev1.ServiceAffinityNone,
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: int32(80 + round%1000), TargetPort: intstr.FromInt32(8080)},
			{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090, TargetPort: intstr.FromString("metrics")}}}}
	if c.headless(i) {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	return s
}

// Slice is the EndpointSlice of Service i; each round has other port numbers.
func (c Cluster) Slice(i, round int) *discoveryv1.EndpointSlice {
	m := c.meta(i, c.name(i)+"-x7k2p")
	m.Labels[discoveryv1.LabelServiceName], m.Labels[discoveryv1.LabelManagedBy] = c.name(i), "endpointslice-controller.k8s.io"
	n := perClusterIP
	if c.headless(i) {
		m.Labels[corev1.IsHeadlessService], n = "", c.perHeadless()
	}
	yes, no, tcp, web, prom := true, false, corev1.ProtocolTCP, "http", "metrics"
	number, second := int32(8080+round%1000), int32(9090)
	s := &discoveryv1.EndpointSlice{ObjectMeta: m, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &web, Protocol: &tcp, Port: &number}, {Name: &prom, Protocol: &tcp, Port: &second}}}
	for e := range n {
		node, zone, pod := fmt.Sprint("node-", (i+e)%100), fmt.Sprint("zone-", e%3), fmt.Sprintf("%s-%d", c.name(i), e)
		ep := discoveryv1.Endpoint{Addresses: []string{c.podIP(i, e)}, NodeName: &node, Zone: &zone,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: c.namespace(i), Name: pod, UID: types.UID(fmt.Sprintf("7a2f3a0c-0000-4000-8000-%06d%06d", i, e))}}
		if c.headless(i) {
			ep.Hostname = &pod
		}
		s.Endpoints = append(s.Endpoints, ep)
	}
	return s
}

// Ranges are those of the cluster's Services and Pods.
func Ranges() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.128.0.0/9")}
}
