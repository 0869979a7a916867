package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/lab/api"
)

// serve answers with f and returns a client for it.
func serve(t *testing.T, f http.HandlerFunc) *api.Client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return &api.Client{Server: s.URL, HTTP: s.Client()}
}

func TestNodesAreListedInTheirOrderWithTheirReadiness(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"items":[
			{"metadata":{"name":"node-10"},"spec":{"podCIDR":"10.244.9.0/24"},"status":{"conditions":[
				{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True","lastHeartbeatTime":"2026-01-02T03:04:05Z"}]}},
			{"metadata":{"name":"node-2"},"status":{"conditions":[{"type":"Ready","status":"False","message":"no network"}]}},
			{"metadata":{"name":"node-1"}}]}`)
	})
	got, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Node{
		{Name: "node-1", Reason: "its kubelet has not reported yet"},
		{Name: "node-2", Reason: "no network"},
		{Name: "node-10", Ready: true, PodCIDR: "10.244.9.0/24", Seen: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestANodeMayRegisterWhenItsOwnObjectCanBeAskedFor(t *testing.T) {
	for code, may := range map[int]bool{200: true, 404: true, 403: false, 500: false, 401: false} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/nodes/node-1" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(code)
			io.WriteString(w, `{}`)
		})
		if err := c.MayRegister(t.Context(), "node-1"); (err == nil) != may {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestRefusalsCarryTheServersWords(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"kind":"Status","message":"nodes is forbidden"}`)
	})
	if _, err := c.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "403: nodes is forbidden") {
		t.Errorf("error %v", err)
	}
}

func TestManifestsAreReadObjectByObject(t *testing.T) {
	objects, err := api.Parse([]byte("# a comment\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n--- # next\n\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: b}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.String())
	}
	if diff := cmp.Diff([]string{"namespace/a", "daemonset/b"}, names); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"kind: Pod\n", "a: [", "apiVersion: v1\nkind: Pod\nmetadata: {}\n"} {
		if _, err := api.Parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken for an object", bad)
		}
	}
}

// discovery is an API server that knows pods, and widgets after it was asked for them twice.
type discovery struct {
	t       *testing.T
	asked   int
	patched []string
}

func (d *discovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/v1":
		io.WriteString(w, `{"resources":[{"name":"pods/status","kind":"Pod","namespaced":true},{"name":"pods","kind":"Pod","namespaced":true},{"name":"namespaces","kind":"Namespace"}]}`)
	case r.URL.Path == "/apis/x.io/v1":
		if d.asked++; d.asked < 3 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		io.WriteString(w, `{"resources":[{"name":"widgets","kind":"Widget"}]}`)
	case r.Method == http.MethodPatch:
		if ct := r.Header.Get("Content-Type"); ct != "application/apply-patch+yaml" || r.URL.Query().Get("force") != "true" {
			d.t.Errorf("applied as %s with %s", ct, r.URL.RawQuery)
		}
		var o map[string]any
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			d.t.Error(err)
		}
		d.patched = append(d.patched, r.URL.Path)
		io.WriteString(w, `{}`)
	}
}

func TestObjectsAreAppliedWhereTheirKindLivesAndNewKindsAreWaitedFor(t *testing.T) {
	d := &discovery{t: t}
	c := serve(t, d.ServeHTTP)
	objects, err := api.Parse([]byte(`apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: q}
---
apiVersion: x.io/v1
kind: Widget
metadata: {name: w}
`))
	if err != nil {
		t.Fatal(err)
	}
	applied, err := c.Apply(t.Context(), objects)
	if err != nil || len(applied) != 4 {
		t.Fatalf("applied %d: %v", len(applied), err)
	}
	want := []string{"/api/v1/namespaces/shop", "/api/v1/namespaces/shop/pods/p", "/api/v1/namespaces/default/pods/q", "/apis/x.io/v1/widgets/w"}
	if diff := cmp.Diff(want, d.patched); diff != "" {
		t.Error(diff)
	}
}

func TestARefusedObjectIsNamed(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.WriteString(w, `{"resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`)
			return
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, `{"message":"no containers"}`)
	})
	_, err := c.Apply(t.Context(), []api.Object{{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}}})
	if err == nil || !strings.Contains(err.Error(), "pod/p") || !strings.Contains(err.Error(), "no containers") {
		t.Errorf("error %v", err)
	}
}

func TestARolloutIsDoneWhenTheNewestPodsAreReadyOnEveryNode(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, body string
		done       bool
	}{
		"a DaemonSet on both nodes":                 {"DaemonSet", `{"metadata":{"generation":2},"status":{"observedGeneration":2,"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberReady":2}}`, true},
		"a DaemonSet that has seen one node so far": {"DaemonSet", `{"metadata":{"generation":1},"status":{"observedGeneration":1,"desiredNumberScheduled":1,"updatedNumberScheduled":1,"numberReady":1}}`, false},
		"a DaemonSet with pods of its old template": {"DaemonSet", `{"metadata":{"generation":2},"status":{"observedGeneration":2,"desiredNumberScheduled":2,"updatedNumberScheduled":1,"numberReady":2}}`, false},
		"a DaemonSet that nobody looked at":         {"DaemonSet", `{"metadata":{"generation":2},"status":{"observedGeneration":1,"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberReady":2}}`, false},
		"a Deployment":                              {"Deployment", `{"metadata":{"generation":1},"spec":{"replicas":1},"status":{"observedGeneration":1,"updatedReplicas":1,"readyReplicas":1}}`, true},
		"a Deployment without a ready pod":          {"Deployment", `{"metadata":{"generation":1},"spec":{"replicas":1},"status":{"observedGeneration":1,"updatedReplicas":1}}`, false},
		"a Deployment of none":                      {"Deployment", `{"metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`, true},
		"something that makes no pods":              {"ConfigMap", `{}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, tt.body) })
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			defer cancel()
			err := c.WaitRolledOut(ctx, []api.Applied{{Object: api.Object{"kind": tt.kind}, Path: "/x"}}, 2)
			if (err == nil) != tt.done {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestContainersThatDoNotComeUpAreNamedWithTheReason(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			if r.URL.Query().Get("previous") != "true" {
				t.Errorf("asked for the log of the run that has not begun: %s", r.URL.RawQuery)
			}
			io.WriteString(w, "the last words\n")
			return
		}
		io.WriteString(w, `{"items":[{"metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"node-1"},"status":{
			"initContainerStatuses":[{"name":"done","state":{"terminated":{"exitCode":0}}}],
			"containerStatuses":[
				{"name":"well","ready":true,"state":{"running":{}}},
				{"name":"young","state":{"waiting":{"reason":"ContainerCreating"}}},
				{"name":"loop","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}}},
				{"name":"deaf","state":{"running":{}}}]}}]}`)
	})
	stuck, err := c.StuckContainers(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Stuck{
		{Namespace: "n", Pod: "p", Container: "loop", Node: "node-1", Restarts: 4, Why: "CrashLoopBackOff back-off"},
		{Namespace: "n", Pod: "p", Container: "deaf", Node: "node-1", Why: "runs, but is not ready"},
	}
	if diff := cmp.Diff(want, stuck); diff != "" {
		t.Fatal(diff)
	}
	if log, err := c.Logs(t.Context(), stuck[0], 10); err != nil || log != "the last words" {
		t.Errorf("log %q: %v", log, err)
	}
}
