package endpointslice

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	objects "github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/model"
)

// vector is a random cluster and what kube-controller-manager v1.37.2 made of it (lab/endpointsvectors).
type vector struct {
	Services []*corev1.Service
	Pods     []*corev1.Pod
	ByHand   []*corev1.Endpoints //nolint:staticcheck // deprecated, and what this is about

	Endpoints []*corev1.Endpoints //nolint:staticcheck // as above
	Slices    []*discoveryv1.EndpointSlice
}

func TestEndpointsAndMirroredSlicesAreThoseOfKubernetes(t *testing.T) {
	data, err := os.ReadFile("testdata/endpoints.json")
	if err != nil {
		t.Fatal(err)
	}
	n, mirrored := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<24)
	for ; lines.Scan(); n++ {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		mirrored += len(v.Slices)
		if d := difference(v.theirs(), v.ours()); d != "" {
			t.Errorf("case %d: Kubernetes -, podway +\n%s", n, d)
		}
	}
	if n < 50 || mirrored < 50 {
		t.Errorf("only %d cases with %d mirrored slices", n, mirrored)
	}
}

func (v *vector) theirs() (out []string) {
	byHand := map[string]bool{}
	for _, e := range v.ByHand {
		byHand[e.Name] = true
	}
	for _, e := range v.Endpoints {
		if !byHand[e.Name] {
			out = append(out, endpointsText(decodeEndpoints(e)))
		}
	}
	for _, s := range v.Slices {
		out = append(out, mirrorTexts(decodeSlice(s))...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (v *vector) ours() (out []string) {
	services := map[string]*model.Service{}
	for _, s := range v.Services {
		svc := objects.Convert(s).(*model.Service)
		services[s.Name] = svc
		var members []*model.Pod
		for _, p := range v.Pods {
			if m := objects.Convert(p).(*model.Pod); len(svc.Selector) > 0 && selects(svc, m) {
				members = append(members, m)
			}
		}
		if e := DesiredEndpoints(svc, members, Nodes{}); e != nil {
			out = append(out, endpointsText(e))
		}
	}
	for _, e := range v.ByHand {
		for _, s := range Mirror(services[e.Name], decodeEndpoints(e), nil).Create {
			out = append(out, mirrorTexts(s)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// endpointsText leaves out who wrote it; the order of everything is normal already.
func endpointsText(e *Endpoints) string {
	labels := maps.Clone(e.Labels)
	delete(labels, labelEndpointsBy)
	for i := range e.Subsets {
		if len(e.Subsets[i].Ports) == 0 {
			e.Subsets[i].Ports = nil
		}
	}
	return fmt.Sprintf("Endpoints %s labels %v over capacity %q: %s", e.Name, labels, e.Annotations[annotationOverCapacity], text1(e.Subsets))
}

// mirrorTexts is a line for each endpoint, without who wrote it and where it is packed.
func mirrorTexts(s *model.EndpointSlice) (out []string) {
	labels := maps.Clone(s.Labels)
	delete(labels, labelManagedBy)
	for _, e := range s.Endpoints {
		out = append(out, fmt.Sprintf("slice of %s %s labels %v annotations %v owner %s ports %s: %s", s.Service, s.AddressType, labels, s.Annotations,
			s.OwnerUID, portsKey(s.Ports), text1(e)))
	}
	return out
}
