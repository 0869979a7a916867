package controltest

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typed "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

// Light is an API server for load: it keeps EndpointSlices and Endpoints as they come, without copies and without a record
// of requests, and answers at once. It has versions, conflicts and a watch of Endpoints; what is written to slices it tells.
type Light struct {
	kubernetes.Interface // all else, empty
	Wrote                func(s *discoveryv1.EndpointSlice, deleted bool)

	mu        sync.Mutex
	version   int
	writes    map[string]int
	slices    map[string]*discoveryv1.EndpointSlice
	endpoints map[string]*corev1.Endpoints //nolint:staticcheck // deprecated, and still written
	told      *watch.Broadcaster
}

// NewLight makes an empty one.
func NewLight() *Light {
	return &Light{Interface: fake.NewSimpleClientset(), Wrote: func(*discoveryv1.EndpointSlice, bool) {}, writes: map[string]int{}, //nolint:staticcheck // only its types are used
		slices: map[string]*discoveryv1.EndpointSlice{}, endpoints: map[string]*corev1.Endpoints{}, told: watch.NewBroadcaster(100000, watch.WaitIfChannelFull)}
}

// IsWatchListSemanticsUnSupported tells informers to list before they watch; client-go asks for it.
func (l *Light) IsWatchListSemanticsUnSupported() bool { return true }

// Writes counts the writes of a resource.
func (l *Light) Writes(resource string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes[resource]
}

// Slices calls f for each slice.
func (l *Light) Slices(f func(*discoveryv1.EndpointSlice)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.slices {
		f(s)
	}
}

// Forget lets go of all objects, so that what the others hold can be weighed.
func (l *Light) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.slices)
	clear(l.endpoints)
}

// stamp gives an object its next version, its name and UID when it is new. have is the version that is stored, "" when
// there is none.
func (l *Light) stamp(m *metav1.ObjectMeta, resource, have string, create bool) error {
	gr := corev1.Resource(resource)
	switch {
	case create && have != "":
		return apierrors.NewAlreadyExists(gr, m.Name)
	case !create && have == "":
		return apierrors.NewNotFound(gr, m.Name)
	case !create && m.ResourceVersion != have:
		return apierrors.NewConflict(gr, m.Name, fmt.Errorf("version %s, not %s", have, m.ResourceVersion))
	}
	l.version++
	l.writes[resource]++
	m.ResourceVersion = strconv.Itoa(l.version)
	if create {
		m.UID = types.UID("uid-" + m.ResourceVersion)
		if m.Name == "" {
			m.Name = fmt.Sprintf("%s%07d", m.GenerateName, l.version)
		}
	}
	return nil
}

// DiscoveryV1 is where the slices are.
func (l *Light) DiscoveryV1() typed.DiscoveryV1Interface {
	return lightDiscovery{l.Interface.DiscoveryV1(), l}
}

type lightDiscovery struct {
	typed.DiscoveryV1Interface
	l *Light
}

func (d lightDiscovery) EndpointSlices(ns string) typed.EndpointSliceInterface {
	return lightSlices{d.DiscoveryV1Interface.EndpointSlices(ns), d.l, ns}
}

type lightSlices struct {
	typed.EndpointSliceInterface
	l  *Light
	ns string
}

func (s lightSlices) Create(_ context.Context, o *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	return s.put(o, true)
}

func (s lightSlices) Update(_ context.Context, o *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	return s.put(o, false)
}

func (s lightSlices) put(o *discoveryv1.EndpointSlice, create bool) (*discoveryv1.EndpointSlice, error) {
	out := *o
	s.l.mu.Lock()
	have := ""
	if old := s.l.slices[s.ns+"/"+o.Name]; old != nil {
		have = old.ResourceVersion
	}
	err := s.l.stamp(&out.ObjectMeta, "endpointslices", have, create)
	if err == nil {
		s.l.slices[s.ns+"/"+out.Name] = &out
	}
	s.l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.l.Wrote(&out, false)
	return &out, nil
}

func (s lightSlices) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	s.l.mu.Lock()
	old := s.l.slices[s.ns+"/"+name]
	delete(s.l.slices, s.ns+"/"+name)
	s.l.writes["endpointslices"]++
	s.l.mu.Unlock()
	if old == nil {
		return apierrors.NewNotFound(discoveryv1.Resource("endpointslices"), name)
	}
	s.l.Wrote(old, true)
	return nil
}

// CoreV1 is where the Endpoints are.
func (l *Light) CoreV1() typedcore.CoreV1Interface { return lightCore{l.Interface.CoreV1(), l} }

type lightCore struct {
	typedcore.CoreV1Interface
	l *Light
}

func (c lightCore) Endpoints(ns string) typedcore.EndpointsInterface {
	return lightEndpoints{c.CoreV1Interface.Endpoints(ns), c.l, ns}
}

type lightEndpoints struct {
	typedcore.EndpointsInterface
	l  *Light
	ns string
}

func (e lightEndpoints) List(context.Context, metav1.ListOptions) (*corev1.EndpointsList, error) { //nolint:staticcheck // as above
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	out := &corev1.EndpointsList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(e.l.version)}} //nolint:staticcheck // as above
	for _, o := range e.l.endpoints {
		out.Items = append(out.Items, *o)
	}
	return out, nil
}

func (e lightEndpoints) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return e.l.told.Watch()
}

func (e lightEndpoints) Create(_ context.Context, o *corev1.Endpoints, _ metav1.CreateOptions) (*corev1.Endpoints, error) { //nolint:staticcheck // as above
	return e.put(o, true)
}

func (e lightEndpoints) Update(_ context.Context, o *corev1.Endpoints, _ metav1.UpdateOptions) (*corev1.Endpoints, error) { //nolint:staticcheck // as above
	return e.put(o, false)
}

func (e lightEndpoints) put(o *corev1.Endpoints, create bool) (*corev1.Endpoints, error) { //nolint:staticcheck // as above
	out := *o
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	have, kind := "", watch.Added
	if old := e.l.endpoints[e.ns+"/"+o.Name]; old != nil {
		have, kind = old.ResourceVersion, watch.Modified
	}
	if err := e.l.stamp(&out.ObjectMeta, "endpoints", have, create); err != nil {
		return nil, err
	}
	e.l.endpoints[e.ns+"/"+out.Name] = &out
	return &out, e.l.told.Action(kind, &out)
}

func (e lightEndpoints) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	old := e.l.endpoints[e.ns+"/"+name]
	if old == nil {
		return apierrors.NewNotFound(corev1.Resource("endpoints"), name)
	}
	delete(e.l.endpoints, e.ns+"/"+name)
	e.l.writes["endpoints"]++
	return e.l.told.Action(watch.Deleted, old)
}
