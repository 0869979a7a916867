// Package apiserver is a Kubernetes API server for tests and benchmarks: objects from memory, lists and watches of them over
// HTTP, as JSON or Protobuf, with resource versions, selectors, streamed lists and bookmarks. It stores what it is given:
// it checks nothing, fills in no default and knows no user.
package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// history is how many events of a kind are kept for watches that fell behind.
const history = 20_000

// event is one change of one object.
type event struct {
	version uint64
	typ     watch.EventType
	obj     runtime.Object
}

// store is the objects of one kind and what happened to them.
type store struct {
	mu      sync.Mutex
	objects map[string]runtime.Object
	events  []event
	oldest  uint64        // versions before it are forgotten
	changed chan struct{} // closed and replaced at every event
}

func newStore() *store {
	return &store{objects: map[string]runtime.Object{}, changed: make(chan struct{})}
}

// put takes an object over; the caller must not change it afterwards.
func (s *store) put(obj runtime.Object, version uint64) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("apiserver: put: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.SetResourceVersion(fmt.Sprint(version))
	key, typ := keyOf(m), watch.Added
	if _, known := s.objects[key]; known {
		typ = watch.Modified
	}
	s.objects[key] = obj
	s.tell(event{version, typ, obj})
	return nil
}

// remove deletes the object of a name, if there is one.
func (s *store) remove(obj runtime.Object, version uint64) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("apiserver: delete: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.objects[keyOf(m)]
	if !known {
		return nil
	}
	delete(s.objects, keyOf(m))
	old = old.DeepCopyObject()
	if m, err = meta.Accessor(old); err != nil {
		return fmt.Errorf("apiserver: delete: %w", err)
	}
	m.SetResourceVersion(fmt.Sprint(version))
	s.tell(event{version, watch.Deleted, old})
	return nil
}

func (s *store) tell(e event) {
	s.events = append(s.events, e)
	if len(s.events) > history {
		s.oldest = s.events[len(s.events)-history-1].version
		s.events = slices.Clone(s.events[len(s.events)-history:])
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget makes every watch end with 410 Gone, as after a compaction: clients list anew.
func (s *store) forget(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.oldest = nil, version
	close(s.changed)
	s.changed = make(chan struct{})
}

// list returns the objects that match, ordered by name.
func (s *store) list(match func(runtime.Object) bool) []runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.objects))
	for k := range s.objects {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var out []runtime.Object
	for _, k := range keys {
		if match(s.objects[k]) {
			out = append(out, s.objects[k])
		}
	}
	return out
}

// since returns the events after a version, and what is closed at the next one; gone = they are forgotten.
func (s *store) since(version uint64) (events []event, next <-chan struct{}, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.oldest {
		return nil, nil, true
	}
	i, _ := slices.BinarySearchFunc(s.events, version+1, func(e event, v uint64) int {
		switch {
		case e.version < v:
			return -1
		case e.version > v:
			return 1
		}
		return 0
	})
	return slices.Clone(s.events[i:]), s.changed, false
}

func keyOf(m metav1.Object) string { return m.GetNamespace() + "/" + m.GetName() }

// selection reads the selectors and the namespace of a request.
func selection(namespace, label, field string) (func(runtime.Object) bool, error) {
	byLabel, err := labels.Parse(label)
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(field)
	if err != nil {
		return nil, err
	}
	return func(obj runtime.Object) bool {
		m, err := meta.Accessor(obj)
		return err == nil && (namespace == "" || m.GetNamespace() == namespace) && byLabel.Matches(labels.Set(m.GetLabels())) &&
			byField.Matches(fieldsOf(m, obj))
	}, nil
}

// resourceOf is the plural of a kind as it stands in a path.
func resourceOf(kind string) string {
	return strings.ToLower(kind) + "s"
}
