package deploy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

type object struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
	Rules            []struct{ Resources, ResourceNames, Verbs []string }
	Spec             struct {
		Template struct {
			Spec struct {
				Containers, InitContainers []struct{ Name, Image string }
			}
		}
	}
}

func decode(t *testing.T, o Options) (out []object) {
	t.Helper()
	b, err := Manifests(o)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, b)
}

func objects(t *testing.T, b []byte) (out []object) {
	t.Helper()
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		var obj object
		err := d.Decode(&obj)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if obj.Kind != "" {
			out = append(out, obj)
		}
	}
}

func TestManifestsTakeEveryOption(t *testing.T) {
	o := Options{Image: "example/podway:1", APIServer: "10.90.0.1:6443", ClusterDomain: "c.test", ClusterCIDRs: "10.1.0.0/16",
		ServiceCIDRs: "10.2.0.0/16", ClusterDNS: "10.2.0.10", ProxyMode: "iptables", KubernetesNames: "true", Pool: []string{"10.90.0.200-10.90.0.250"}}
	b, err := Manifests(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"podway.local", `PODWAY_APISERVER: ""`, `PODWAY_PROXY_MODE: ""`, "cluster.local\n", "10.244.0.0", "10.96.0."} {
		if strings.Contains(string(b), old) {
			t.Errorf("%q is still there", old)
		}
	}
	images, pools := 0, 0
	for _, obj := range decode(t, o) {
		for _, c := range append(obj.Spec.Template.Spec.Containers, obj.Spec.Template.Spec.InitContainers...) {
			images++
			if c.Image != o.Image {
				t.Errorf("%s: image %q", c.Name, c.Image)
			}
		}
		if obj.Kind == "AddressPool" {
			pools++
		}
	}
	if images != 5 || pools != 1 {
		t.Errorf("got %d containers and %d pools, want 5 and 1", images, pools)
	}
}

func TestManifestsStartWithTheCustomResource(t *testing.T) {
	objs := decode(t, Options{})
	if len(objs) < 10 || objs[0].Kind != "CustomResourceDefinition" {
		t.Fatalf("got %d objects, the first is %q", len(objs), objs[0].Kind)
	}
}

func TestOnlyTheControllerMayWriteAndOnlyItsOwnLease(t *testing.T) {
	writes := []string{"create", "update", "patch", "delete", "deletecollection", "*"}
	roles := 0
	for _, obj := range decode(t, Options{}) {
		for _, r := range obj.Rules {
			roles++
			for _, v := range r.Verbs {
				switch {
				case !slices.Contains(writes, v):
				case obj.Metadata.Name != "podway-controller":
					t.Errorf("%s %s may %s %v", obj.Kind, obj.Metadata.Name, v, r.Resources)
				case slices.Contains(r.Resources, "leases") && v != "create" && !slices.Equal(r.ResourceNames, []string{"podway-controller"}):
					t.Errorf("the controller may %s Leases named %v", v, r.ResourceNames)
				}
			}
		}
	}
	if roles < 10 {
		t.Fatalf("%d rules were looked at", roles)
	}
}

func TestTheProxyAloneReadsWhatItNeedsAndWritesEventsOnly(t *testing.T) {
	b, err := ProxyManifests(Options{Image: "example/podway:2"})
	if err != nil {
		t.Fatal(err)
	}
	reads, kinds := map[string]bool{}, map[string]int{}
	for _, obj := range objects(t, b) {
		kinds[obj.Kind]++
		for _, c := range append(obj.Spec.Template.Spec.Containers, obj.Spec.Template.Spec.InitContainers...) {
			if c.Image != "example/podway:2" {
				t.Errorf("%s: image %q", c.Name, c.Image)
			}
		}
		for _, r := range obj.Rules {
			for _, what := range r.Resources {
				if slices.Equal(r.Verbs, []string{"get", "list", "watch"}) {
					reads[what] = true
				} else if what != "events" {
					t.Errorf("may %v %s", r.Verbs, what)
				}
			}
		}
	}
	for _, what := range []string{"services", "nodes", "endpointslices", "servicecidrs"} {
		if !reads[what] {
			t.Errorf("may not read %s", what)
		}
	}
	if len(reads) != 4 || kinds["DaemonSet"] != 1 || kinds["ClusterRoleBinding"] != 1 {
		t.Errorf("reads %v, objects %v", reads, kinds)
	}
}
