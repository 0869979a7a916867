package main

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typed "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/podway/podway/internal/control/controltest"
)

// api is the API that a subject writes to; it tells of every slice that was written once the writer has its answer.
type api struct {
	kubernetes.Interface
	wrote func(*discoveryv1.EndpointSlice)
	done  func() // after each turn
	store func(context.Context, typed.EndpointSliceInterface, *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error)
}

// inMemory writes to client-go's fake clientset, which copies, compares versions and tells its watchers.
func inMemory(s *controltest.Server) *api {
	return &api{Interface: s, done: s.ClearActions,
		store: func(ctx context.Context, to typed.EndpointSliceInterface, s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
			if s.Name == "" {
				return to.Create(ctx, s, metav1.CreateOptions{})
			}
			return to.Update(ctx, s, metav1.UpdateOptions{})
		}}
}

// instant answers every write at once with the next version of what came, so that what is left is the subject's own work.
func instant() *api {
	version := 0
	return &api{Interface: fake.NewSimpleClientset(), done: func() {}, //nolint:staticcheck // only its types are used
		store: func(_ context.Context, _ typed.EndpointSliceInterface, s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
			version++
			if s.Name == "" {
				s.Name, s.UID = fmt.Sprintf("%s%05d", s.GenerateName, version), types.UID(fmt.Sprint("uid-", version))
			}
			s.ResourceVersion = fmt.Sprint(version)
			return s, nil
		}}
}

// IsWatchListSemanticsUnSupported tells informers that this API lists before it watches; client-go asks for it.
func (a *api) IsWatchListSemanticsUnSupported() bool { return true }

func (a *api) DiscoveryV1() typed.DiscoveryV1Interface {
	return discovery{a.Interface.DiscoveryV1(), a}
}

type discovery struct {
	typed.DiscoveryV1Interface
	a *api
}

func (d discovery) EndpointSlices(ns string) typed.EndpointSliceInterface {
	return endpointSlices{d.DiscoveryV1Interface.EndpointSlices(ns), d.a}
}

type endpointSlices struct {
	typed.EndpointSliceInterface
	a *api
}

func (e endpointSlices) Create(ctx context.Context, s *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	return e.put(ctx, s)
}

func (e endpointSlices) Update(ctx context.Context, s *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	return e.put(ctx, s)
}

func (e endpointSlices) put(ctx context.Context, s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	out, err := e.a.store(ctx, e.EndpointSliceInterface, s)
	if err == nil {
		e.a.wrote(out)
	}
	return out, err
}
