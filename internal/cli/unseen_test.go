package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/trace"
)

const secured = traced + `---
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: podway}, spec: {controller: podway.io/ingress}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: front, namespace: shop}, spec: {ingressClassName: podway, tls: [{hosts: [shop.example], secretName: web-tls}], rules: [{host: shop.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: pay, port: {number: 80}}}}]}}]}}
`

func TestObjectsThatMayNotBeSeenAreNotMissingAndNotGreen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(secured), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := cluster.LoadFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	ask := flow.Flow{From: flow.FromOutside, HTTP: &flow.Request{Scheme: "https", Host: "shop.example", Path: "/"}}
	for _, c := range []struct {
		missing []string
		secret  bool // a missing Secret is found
		exit    int  // of a trace through the ingress that is whole
	}{
		{nil, true, trace.ExitOK},
		{[]string{"TLS Secrets: forbidden"}, false, trace.ExitUnknown},
		{[]string{"Nodes: forbidden"}, true, trace.ExitUnknown},
		{[]string{"AddressPools: forbidden"}, true, trace.ExitOK},
	} {
		v := &view{snapshot: s, missing: c.missing}
		declared, err := v.declared()
		if err != nil {
			t.Fatal(err)
		}
		got, err := declared.Verdict(t.Context(), trace.HopIngress, "n1", ask)
		found := len(got.Findings) > 0 && got.Findings[0].Code == flow.IngressBadSecret
		if err != nil || found != c.secret {
			t.Errorf("%q: %+v %v", c.missing, got.Findings, err)
		}
		r := trace.Report{Steps: []trace.ReportStep{{Hop: trace.HopIngress}}}
		if v.unseen(&r); r.Exit != c.exit || len(r.NotChecked) != len(c.missing) {
			t.Errorf("%q: exit %d, want %d; %q", c.missing, r.Exit, c.exit, r.NotChecked)
		}
	}
}
