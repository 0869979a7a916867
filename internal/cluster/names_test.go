package cluster

import (
	"testing"

	"github.com/podway/podway/internal/model"
)

func TestOnlyWhatNamesAreMadeOfIsKept(t *testing.T) {
	slice := func(managed string, labels map[string]string) *model.EndpointSlice {
		return &model.EndpointSlice{Name: model.N("shop", "a"), Service: model.N("shop", "cart"), ManagedBy: managed, Labels: labels,
			Endpoints: []model.Endpoint{{Ready: true, Hostname: "cart-0", Node: "node-1"}}}
	}
	headless := map[string]string{"service.kubernetes.io/headless": ""}
	for name, c := range map[string]struct {
		in   *model.EndpointSlice
		want int
	}{
		"of a headless Service":           {slice("endpointslice-controller.k8s.io", headless), 1},
		"of a Service with ClusterIP":     {slice("endpointslice-controller.k8s.io", nil), 0},
		"the same, of podway":             {slice("endpointslice-controller.podway.io", nil), 0},
		"by hand: nobody says what it is": {slice("", nil), 1},
		"mirrored":                        {slice("endpointslicemirroring-controller.k8s.io", nil), 1},
	} {
		out := namesOnly(c.in).(*model.EndpointSlice)
		if len(out.Endpoints) != c.want || out.Service != c.in.Service || out.Labels != nil {
			t.Errorf("%s: %+v", name, out)
		}
		if c.want == 1 && (out.Endpoints[0].Hostname != "cart-0" || !out.Endpoints[0].Ready || out.Endpoints[0].Node != "") {
			t.Errorf("%s: %+v", name, out.Endpoints[0])
		}
	}
	s := namesOnly(&model.Service{Name: model.N("shop", "cart"), Headless: true, Labels: headless, Ports: []model.ServicePort{{Name: "http", Port: 80, NodePort: 30080}}}).(*model.Service)
	if !s.Headless || s.Labels != nil || s.Ports[0] != (model.ServicePort{Name: "http", Port: 80}) {
		t.Errorf("%+v", s)
	}
}
