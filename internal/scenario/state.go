package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control/endpointslice"
	"github.com/podway/podway/internal/control/loadbalancer"
	"github.com/podway/podway/internal/hop/proxy/config"
	"github.com/podway/podway/internal/model"
)

// State is the cluster after a step.
type State struct {
	Snapshot *model.Snapshot
	Nodes    []string                      // in the order of their appearance
	Closed   map[model.Name]map[int32]bool // ports of Pods that no process listens on
	Loopback map[model.Name]map[int32]bool // ports of Pods that only a process on 127.0.0.1 listens on
	Restart  []string                      // nodes whose processes are killed and started anew before this state
	Failing  []string                      // nodes whose proxy cannot write at the first try of this state

	DNS string // Corefile of the nodes' DNS servers; "" = none

	api   *apiObjects
	proxy *config.File // nil = nothing was said
}

// The annotations on a Pod that list ports, such as "8080,9090", on which its process does not listen at level kernel, or
// on its loopback address only.
const (
	annotationClosed   = "scenario.podway.io/closed-ports"
	annotationLoopback = "scenario.podway.io/loopback-ports"
)

// state fills in what the short forms left out and makes the snapshot: nodes, then Pods and Services, then the slices of
// Services that have none, then load balancer addresses.
func (o *objects) state() (*State, error) {
	if err := o.addIngressProxy(); err != nil {
		return nil, err
	}
	objs, errs := o.decode()
	st := &State{Closed: map[model.Name]map[int32]bool{}, Loopback: map[model.Name]map[int32]bool{}, api: newAPIObjects()}
	o.given.collect(objs)
	if !slices.ContainsFunc(objs, func(d decoded) bool { _, is := d.api.(*corev1.Node); return is }) {
		objs = slices.Insert(objs, 0, bareNode("node-a"), bareNode("node-b"))
	}
	nodes := map[string]*corev1.Node{}
	for _, d := range objs {
		if n, ok := d.api.(*corev1.Node); ok {
			o.given.node(n, d.raw)
			nodes[n.Name] = n
			st.Nodes = append(st.Nodes, n.Name)
		}
	}
	b := model.NewBuilder(nil)
	for _, d := range objs {
		if err := o.given.fill(d, nodes, st); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.key, err))
			continue
		}
		if m := cluster.Convert(d.api); m != nil {
			b.Put(m)
		}
		st.api.put(d.api)
	}
	st.Snapshot = withAddresses(withMirrored(withSlices(b.Snapshot(time.Unix(0, 0))), objs))
	st.api.complete(st.Snapshot)
	for _, e := range o.events {
		if err := e.add(st); err != nil {
			errs = append(errs, err)
		}
	}
	return st, errors.Join(errs...)
}

// decoded is an object in both forms.
type decoded struct {
	key string
	raw map[string]any
	api metav1.Object
}

func (o *objects) decode() (out []decoded, errs []error) {
	for _, key := range o.order {
		api, err := decodeOne(key, o.docs[key])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, decoded{key, o.docs[key], api})
	}
	return out, errs
}

func decodeOne(key string, doc map[string]any) (metav1.Object, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	objs, err := cluster.DecodeAPI(data)
	if err != nil {
		return nil, errors.New(noise.Replace(err.Error()))
	}
	if len(objs) != 1 {
		kind, _, _ := strings.Cut(key, " ")
		known := []string{"Service", "EndpointSlice", "Endpoints", "Node", "Pod", "Ingress", "IngressClass", "Secret", "AddressPool", "Deployment", "StatefulSet", "DaemonSet"}
		return nil, fmt.Errorf("%s: podway reads no %s %v%s", key, doc["apiVersion"], kind, didYouMean(kind, known...))
	}
	return objs[0], nil
}

// noise is what the decoders say before the point.
var noise = strings.NewReplacer("document 1: ", "", "error unmarshaling JSON: while decoding JSON: ", "", "json: ", "")

// check tells whether a document is an object that podway reads, without unknown fields.
func check(key string, doc map[string]any) error {
	_, err := decodeOne(key, doc)
	return err
}

// fill completes one object.
func (g *given) fill(d decoded, nodes map[string]*corev1.Node, st *State) error {
	g.identity(d)
	switch a := d.api.(type) {
	case *corev1.Pod:
		if err := st.listens(a); err != nil {
			return err
		}
		return g.pod(d.key, a, nodes, st.Nodes)
	case *corev1.Service:
		return g.service(d.key, a)
	case *corev1.Secret:
		return selfSigned(a)
	case *discoveryv1.EndpointSlice:
		if a.AddressType == "" {
			a.AddressType = discoveryv1.AddressTypeIPv4
		}
	case *networkingv1.Ingress:
		if a.CreationTimestamp.IsZero() {
			a.CreationTimestamp = metav1.Unix(0, 0)
		}
	}
	return nil
}

// listens reads the annotations about the Pod's ports.
func (s *State) listens(p *corev1.Pod) error {
	for annotation, into := range map[string]map[model.Name]map[int32]bool{annotationClosed: s.Closed, annotationLoopback: s.Loopback} {
		text, ok := p.Annotations[annotation]
		if !ok {
			continue
		}
		ports := map[int32]bool{}
		for w := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseUint(strings.TrimSpace(w), 10, 16)
			if err != nil {
				return fmt.Errorf("annotation %s: %q is no list of ports", annotation, text)
			}
			ports[int32(n)] = true
		}
		into[model.N(p.Namespace, p.Name)] = ports
	}
	return nil
}

// withSlices adds the slices that the endpoint controller would write, for each Service that has none in the file.
func withSlices(s *model.Snapshot) *model.Snapshot {
	b := model.NewBuilder(s)
	for _, sl := range endpointslice.Derive(s) {
		if s.Backends(sl.Service) == nil {
			b.Put(sl)
		}
	}
	return b.Snapshot(s.Time)
}

// withMirrored adds the slices that mirror the file's Endpoints.
func withMirrored(s *model.Snapshot, objs []decoded) *model.Snapshot {
	b := model.NewBuilder(s)
	for _, d := range objs {
		if e, ok := d.api.(*corev1.Endpoints); ok { //nolint:staticcheck // deprecated, and still mirrored
			for _, sl := range endpointslice.DeriveMirrored(s, e) {
				b.Put(sl)
			}
		}
	}
	return b.Snapshot(s.Time)
}

// withAddresses gives Services of type LoadBalancer what podway's controller would give them out of the file's pools.
func withAddresses(s *model.Snapshot) *model.Snapshot {
	b := model.NewBuilder(s)
	for _, a := range loadbalancer.Allocate(s) {
		if a.Failed() || len(a.Service.LoadBalancerIPs) > 0 {
			continue // what the file says stands
		}
		svc := *a.Service
		for _, ip := range a.Addrs {
			svc.LoadBalancerIPs = append(svc.LoadBalancerIPs, model.LoadBalancerIP{Addr: ip})
		}
		b.Put(&svc)
	}
	return b.Snapshot(s.Time)
}

func bareNode(name string) decoded {
	return decoded{key: "Node " + name, api: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}
