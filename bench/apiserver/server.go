package apiserver

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Server serves lists and watches. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	version uint64
	stores  map[schema.GroupVersionResource]*store
	lists   atomic.Int64
	http    *http.Server
	url     string
}

// kind is one that is served.
type kind struct {
	schema.GroupVersionKind
	list        runtime.Object // empty
	clusterOnly bool
}

var kinds = map[schema.GroupVersionResource]kind{}

func init() {
	for _, k := range []struct {
		gv   schema.GroupVersion
		name string
		list runtime.Object
	}{
		{corev1.SchemeGroupVersion, "Service", &corev1.ServiceList{}},
		{corev1.SchemeGroupVersion, "Namespace", &corev1.NamespaceList{}},
		{corev1.SchemeGroupVersion, "Node", &corev1.NodeList{}},
		{corev1.SchemeGroupVersion, "Pod", &corev1.PodList{}},
		{discoveryv1.SchemeGroupVersion, "EndpointSlice", &discoveryv1.EndpointSliceList{}},
	} {
		kinds[k.gv.WithResource(resourceOf(k.name))] = kind{GroupVersionKind: k.gv.WithKind(k.name), list: k.list,
			clusterOnly: k.name == "Namespace" || k.name == "Node"}
	}
}

// Start listens on an address of this machine, "127.0.0.1:0" for any free port, and serves until Close.
func Start(addr string) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	s := &Server{version: 1, stores: map[schema.GroupVersionResource]*store{}, url: "http://" + l.Addr().String()}
	for r := range kinds {
		s.stores[r] = newStore()
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// URL is where the server listens.
func (s *Server) URL() string { return s.url }

// Close ends the server and all watches.
func (s *Server) Close() error { return s.http.Close() }

// Lists is how many complete lists clients have asked for, streamed ones included.
func (s *Server) Lists() int { return int(s.lists.Load()) }

// Put adds or replaces objects; they are the server's from now on.
func (s *Server) Put(objs ...runtime.Object) error {
	return s.each(objs, (*store).put)
}

// Delete deletes the objects of these names, if they are there.
func (s *Server) Delete(objs ...runtime.Object) error {
	return s.each(objs, (*store).remove)
}

func (s *Server) each(objs []runtime.Object, do func(*store, runtime.Object, uint64) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objs {
		st, err := s.storeOf(o)
		if err != nil {
			return err
		}
		s.version++
		if err := do(st, o, s.version); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) storeOf(o runtime.Object) (*store, error) {
	gvks, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	st := s.stores[gvks[0].GroupVersion().WithResource(resourceOf(gvks[0].Kind))]
	if st == nil {
		return nil, fmt.Errorf("apiserver: %s is not served", reflect.TypeOf(o))
	}
	return st, nil
}

// Forget ends all watches with 410 Gone and forgets what happened: all clients list everything anew.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, st := range s.stores {
		st.forget(s.version)
	}
}

func (s *Server) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/version":
		reply(w, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.2"})
		return
	case len(parts) >= 2 && parts[0] == "api":
		s.resource(w, r, schema.GroupVersion{Version: parts[1]}, parts[2:])
	case len(parts) >= 3 && parts[0] == "apis":
		s.resource(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:])
	default:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no "+r.URL.Path)
	}
}

// resource serves what stands behind /api/v1 or /apis/GROUP/VERSION.
func (s *Server) resource(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion, path []string) {
	if len(path) == 0 {
		discover(w, gv)
		return
	}
	namespace := ""
	if path[0] == "namespaces" && len(path) == 3 {
		namespace, path = path[1], path[2:]
	}
	resource := gv.WithResource(path[0])
	st, known := s.stores[resource]
	if !known || len(path) != 1 || r.Method != http.MethodGet {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no "+r.Method+" "+r.URL.Path)
		return
	}
	q := r.URL.Query()
	match, err := selection(namespace, q.Get("labelSelector"), q.Get("fieldSelector"))
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	out, err := encoderFor(r.Header.Get("Accept"), gv)
	if err != nil {
		fail(w, http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, err.Error())
		return
	}
	if watching, _ := strconv.ParseBool(q.Get("watch")); watching {
		s.watch(w, r, st, kinds[resource], match, out)
		return
	}
	s.list(w, st, kinds[resource], match, out)
}

func (s *Server) list(w http.ResponseWriter, st *store, k kind, match func(runtime.Object) bool, out *encoder) {
	s.lists.Add(1)
	version := s.now() // before: a change in between is told again, which does no harm
	list := k.list.DeepCopyObject()
	if err := meta.SetList(list, st.list(match)); err != nil {
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	if m, err := meta.ListAccessor(list); err == nil {
		m.SetResourceVersion(strconv.FormatUint(version, 10))
	}
	w.Header().Set("Content-Type", out.mediaType)
	_ = out.encode(list, w)
}

// discover says which resources a group and version has.
func discover(w http.ResponseWriter, gv schema.GroupVersion) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for r, k := range kinds {
		if r.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Resource, Kind: k.Kind, Namespaced: !k.clusterOnly,
				Verbs: metav1.Verbs{"list", "watch"}})
		}
	}
	if len(list.APIResources) == 0 {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no "+gv.String())
		return
	}
	reply(w, list)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(statusOf(code, reason, message))
}

func statusOf(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: message}
}

// fieldsOf are the fields that clients select by.
func fieldsOf(m metav1.Object, obj runtime.Object) fields.Set {
	set := fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}
	if p, ok := obj.(*corev1.Pod); ok {
		set["status.phase"], set["spec.nodeName"] = string(p.Status.Phase), p.Spec.NodeName
	}
	return set
}
