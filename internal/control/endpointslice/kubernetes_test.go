package endpointslice

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/podway/podway/internal/model"
)

// testdata/kubernetes.json holds random Services and Pods, and the endpoints that Kubernetes' own reconciler gave them.
func TestTheEndpointsAreThoseOfKubernetes(t *testing.T) {
	var file struct {
		Nodes   []*model.Node
		Vectors []struct {
			Service *model.Service
			Pods    []*model.Pod
			Want    []string
		}
	}
	b, err := os.ReadFile("testdata/kubernetes.json")
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all Nodes
	for _, n := range file.Nodes {
		all = all.Set(n.Name, n)
	}
	for i, v := range file.Vectors {
		got := lines(Desired(v.Service, v.Pods, all, nil).Create)
		if d := cmp.Diff(v.Want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("case %d: %s", i, d)
		}
	}
	if len(file.Vectors) < 40 {
		t.Errorf("only %d cases", len(file.Vectors))
	}
}

func lines(list []*model.EndpointSlice) (out []string) {
	for _, s := range list {
		for _, e := range s.Endpoints {
			out = append(out, fmt.Sprintf("%s [%s] %s ready=%t serving=%t terminating=%t host=%q node=%q zone=%q zones=%v nodes=%v",
				s.AddressType, strings.ReplaceAll(portsKey(s.Ports), "\n", " "), e.Addr, e.Ready, e.Serving, e.Terminating,
				e.Hostname, e.Node, e.Zone, e.ForZones, e.ForNodes))
		}
	}
	slices.Sort(out)
	return out
}
