package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// fault is something a user breaks by hand; trace must name its hop and code, and nothing once it is mended.
type fault struct {
	name       string
	breakIt    [][]string // arguments of kubectl
	mend       [][]string
	from, to   string
	code, hop  string
	onEachEcho bool // breakIt and mend run in each echo Pod instead, by the echo program
}

func faults() []fault {
	patch := func(service, json string) [][]string {
		return [][]string{{"-n", namespace, "patch", "service", service, "--type=json", "-p", json}}
	}
	return []fault{
		{name: "scaled to zero", to: "http://solo/", code: "PW-1204", hop: "proxy",
			breakIt: [][]string{{"-n", namespace, "scale", "deployment/solo", "--replicas=0"}, {"-n", namespace, "wait", "--for=delete", "pod", "-l", "app=solo", "--timeout=60s"}},
			mend:    [][]string{{"-n", namespace, "scale", "deployment/solo", "--replicas=1"}, {"-n", namespace, "rollout", "status", "deployment/solo", "--timeout=60s"}}},
		{name: "wrong selector", to: "http://echo/", code: "PW-1201", hop: "proxy",
			breakIt: patch("echo", `[{"op":"replace","path":"/spec/selector/app","value":"ecko"}]`),
			mend:    patch("echo", `[{"op":"replace","path":"/spec/selector/app","value":"echo"}]`)},
		{name: "wrong targetPort, by number", to: "http://echo/", code: "PW-7001", hop: "process",
			breakIt: patch("echo", `[{"op":"replace","path":"/spec/ports/0/targetPort","value":8099}]`),
			mend:    patch("echo", `[{"op":"replace","path":"/spec/ports/0/targetPort","value":"web"}]`)},
		{name: "wrong targetPort, by name", to: "http://echo/", code: "PW-1203", hop: "proxy",
			breakIt: patch("echo", `[{"op":"replace","path":"/spec/ports/0/targetPort","value":"wep"}]`),
			mend:    patch("echo", `[{"op":"replace","path":"/spec/ports/0/targetPort","value":"web"}]`)},
		{name: "the Ingress class is deleted", from: "outside=" + clientAddress, to: "https://" + shopHost + "/", code: "PW-4001", hop: "ingress",
			breakIt: [][]string{{"delete", "ingressclass", "podway"}},
			mend:    [][]string{{"create", "-f", "-"}}},
		{name: "readiness off", to: "http://echo/", code: "PW-1202", hop: "proxy", onEachEcho: true,
			breakIt: [][]string{{"ready", "off"}}, mend: [][]string{{"ready", "on"}}},
	}
}

const ingressClass = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: podway, labels: {app.kubernetes.io/part-of: podway}}\nspec: {controller: podway.io/ingress}\n"

func (f fault) test(ctx context.Context, t *testing.T, w *world) {
	f.apply(ctx, t, w, f.breakIt)
	defer func() {
		if err := eventually(ctx, 20*time.Second, func() error { return f.expect(ctx, w, "", "", 0) }); err != nil {
			t.Errorf("after mending: %v", err)
		}
	}()
	defer f.apply(ctx, t, w, f.mend)
	if err := eventually(ctx, 20*time.Second, func() error { return f.expect(ctx, w, f.code, f.hop, 1) }); err != nil {
		t.Error(err)
	}
}

func (f fault) apply(ctx context.Context, t *testing.T, w *world, commands [][]string) {
	t.Helper()
	for _, c := range commands {
		var err error
		if f.onEachEcho {
			for _, p := range w.echoes {
				if _, e := w.user.inPod(ctx, p.Name, c...); e != nil {
					err = e
				}
			}
		} else {
			_, err = w.user.kubectlIn(ctx, []byte(ingressClass), c...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// expect asks trace and compares code, broken hop and exit code.
func (f fault) expect(ctx context.Context, w *world, code, hop string, exit int) error {
	from := f.from
	if from == "" {
		from = "pod/" + w.clients[0].Name
	}
	out, err := w.user.run(ctx, nil, "trace", "-n", namespace, "--from", from, "--to", f.to, "-o", "json")
	var got struct {
		SchemaVersion int
		Exit          int
		Finding       struct{ Code, Cause string }
		Steps         []struct{ Hop, State string }
	}
	if e := json.Unmarshal([]byte(out), &got); e != nil {
		return fmt.Errorf("trace printed no JSON: %w; %w", e, err)
	}
	broken := ""
	for _, s := range got.Steps {
		if s.State == "broken" && broken == "" {
			broken = s.Hop
		}
	}
	if exitCode(err) != exit || got.Exit != exit || got.Finding.Code != code || broken != hop || got.SchemaVersion != 1 {
		return fmt.Errorf("trace: exit %d (%d in JSON), code %q at %q (%s), want exit %d, %q at %q", exitCode(err), got.Exit,
			got.Finding.Code, broken, got.Finding.Cause, exit, code, hop)
	}
	return nil
}
