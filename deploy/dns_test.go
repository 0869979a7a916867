package deploy

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// document reads the object of a kind among manifests; unknown fields are errors.
func document(t *testing.T, manifests []byte, kind string, into any) {
	t.Helper()
	for _, doc := range strings.Split(string(manifests), "\n---") {
		if strings.Contains(doc, "\nkind: "+kind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no %s", kind)
}

func TestTheDNSServerAloneStandsWhereCoreDNSDid(t *testing.T) {
	b, err := DNSManifests(Options{Image: "example/podway:4", ClusterDNS: "10.2.0.10"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); strings.Contains(s, "podway.local") || strings.Contains(s, "10.96.0.10") {
		t.Error("the options are not in it")
	}
	var d appsv1.Deployment
	var s corev1.Service
	var c corev1.ConfigMap
	var r rbacv1.ClusterRole
	document(t, b, "Deployment", &d)
	document(t, b, "Service", &s)
	document(t, b, "ConfigMap", &c)
	document(t, b, "ClusterRole", &r)
	pod := d.Spec.Template
	for k, v := range s.Spec.Selector {
		if pod.Labels[k] != v {
			t.Errorf("the Service selects %s=%s, the Pods have %v", k, v, pod.Labels)
		}
	}
	for k, v := range d.Spec.Selector.MatchLabels {
		if k == "k8s-app" || pod.Labels[k] != v { // CoreDNS's Deployment selects by that label
			t.Errorf("the Deployment selects by %s=%s", k, v)
		}
	}
	box := pod.Spec.Containers[0]
	ports := map[int32][]corev1.Protocol{}
	for _, p := range box.Ports {
		ports[p.ContainerPort] = append(ports[p.ContainerPort], p.Protocol)
	}
	for _, p := range s.Spec.Ports {
		if !slices.Contains(ports[p.TargetPort.IntVal], p.Protocol) && !(p.Name == "metrics" && ports[9153] != nil) {
			t.Errorf("port %s of the Service leads nowhere: %v", p.Name, ports)
		}
	}
	if len(ports[53]) != 2 || ports[8080] == nil || ports[8181] == nil || box.Image != "example/podway:4" {
		t.Errorf("ports %v, image %s", ports, box.Image)
	}
	if !slices.Equal(box.Args, []string{"dns", "--conf", "/etc/coredns/Corefile"}) || mounts(box)["/etc/coredns"].Name != pod.Spec.Volumes[0].Name ||
		pod.Spec.Volumes[0].ConfigMap.Name != c.Name || c.Data["Corefile"] == "" {
		t.Errorf("the Corefile is not where it is looked for: %v, %+v", box.Args, pod.Spec.Volumes)
	}
	if sc := box.SecurityContext; !slices.Equal(sc.Capabilities.Add, []corev1.Capability{"NET_BIND_SERVICE"}) || !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation {
		t.Errorf("security context %+v", sc)
	}
	for _, rule := range r.Rules {
		if !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
			t.Errorf("may %v %v", rule.Verbs, rule.Resources)
		}
	}
}

func TestTheServiceOfKubeadmStaysAsItIs(t *testing.T) {
	b, err := DNSManifests(Options{}, false)
	if err != nil || strings.Contains(string(b), "\nkind: Service\n") || strings.Contains(string(b), "\nkind: ConfigMap\n") {
		t.Errorf("%v\n%s", err, b)
	}
}
