// Package controltest is an API server in memory for tests of the control loops: client-go's fake clientset with what a
// real server adds, namely generated names, UIDs, versions that grow, and conflicts.
package controltest

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Server is the API server.
type Server struct {
	*fake.Clientset
	version int
}

// New makes an empty one.
func New() *Server {
	s := &Server{Clientset: fake.NewSimpleClientset()} //nolint:staticcheck // managed fields do not matter here
	s.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetResource().Resource == "events" {
			return false, nil, nil
		}
		m := s.bump(a.(clienttesting.CreateAction).GetObject())
		m.SetUID(types.UID(fmt.Sprint("uid-", s.version)))
		if m.GetName() == "" {
			m.SetName(fmt.Sprintf("%s%05d", m.GetGenerateName(), s.version))
		}
		return false, nil, nil
	})
	s.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		obj := a.(clienttesting.UpdateAction).GetObject()
		m, _ := meta.Accessor(obj)
		old, err := s.Tracker().Get(a.GetResource(), a.GetNamespace(), m.GetName())
		if err != nil {
			return true, nil, err
		}
		if o, _ := meta.Accessor(old); m.GetResourceVersion() != "" && o.GetResourceVersion() != m.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), m.GetName(), fmt.Errorf("version %s", m.GetResourceVersion()))
		}
		s.bump(obj)
		return false, nil, nil
	})
	return s
}

func (s *Server) bump(o runtime.Object) metav1.Object {
	m, _ := meta.Accessor(o)
	s.version++
	m.SetResourceVersion(strconv.Itoa(s.version))
	return m
}

// Writes counts the requests of a verb for a resource since the last ClearActions.
func (s *Server) Writes(verb, resource string) (n int) {
	for _, a := range s.Actions() {
		if a.GetVerb() == verb && a.GetResource().Resource == resource {
			n++
		}
	}
	return n
}
