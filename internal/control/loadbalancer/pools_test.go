package loadbalancer

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/record"

	"github.com/podway/podway/internal/model"
)

func TestAPoolWhoseAddressesCannotAllWorkSaysWhy(t *testing.T) {
	r := Ranges{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	s := snap(pool("fine", "192.0.2.1-192.0.2.9"), pool("same", "192.0.2.9-192.0.2.20"), pool("pods", "10.244.9.1-10.245.0.1"), pool("services", "10.96.0.10"),
		pool("node", "172.18.0.0-172.18.0.9"), pool("broken", "", func(p *model.Pool) { p.Problem = "spec.addresses is empty" }),
		&model.Node{Name: "n1", Addrs: []netip.Addr{ip("172.18.0.1")}})
	got := r.counts(s)
	for name, want := range map[string]string{"fine": "", "same": "192.0.2.9-192.0.2.20 overlaps 192.0.2.1-192.0.2.9 of AddressPool fine", "pods": "overlaps 10.244.0.0/16, a range of Pods",
		"services": "10.96.0.10 overlaps 10.96.0.0/16, a range of ClusterIPs", "node": "has 172.18.0.1, the address of node n1", "broken": "spec.addresses is empty"} {
		if p := got[name].Problem; (p == "") != (want == "") || !strings.Contains(p, want) {
			t.Errorf("%s: %q, want %q", name, p, want)
		}
	}
}

func TestTheProblemOfAPoolIsOneEvent(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "podway.io/v1alpha1", "kind": "AddressPool", "metadata": map[string]any{"name": "a"}}}
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{poolResource: "AddressPoolList"}, obj)
	events := record.NewFakeRecorder(9)
	w := newPoolWriter(dyn, events, slog.New(slog.DiscardHandler))
	for range 2 {
		w.set(map[string]poolStatus{"a": {Total: 1, Problem: "it overlaps"}})
		if !w.write(t.Context()) {
			t.Fatal("not written")
		}
	}
	if got := <-events.Events; got != "Warning AddressesUnusable PW-3004: it overlaps" || len(events.Events) > 0 {
		t.Errorf("got %q and %d more", got, len(events.Events))
	}
}
