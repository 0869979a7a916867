package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const fieldManager = "podway-lab"

// Object is a Kubernetes object as decoded JSON.
type Object map[string]any

func (o Object) text(keys ...string) string {
	var v any = map[string]any(o)
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[k]
	}
	s, _ := v.(string)
	return s
}

// String names the object as kubectl does.
func (o Object) String() string {
	return strings.ToLower(o.text("kind")) + "/" + o.text("metadata", "name")
}

// Parse reads the objects of a YAML stream.
func Parse(manifests []byte) ([]Object, error) {
	var objects []Object
	for i, doc := range bytes.Split(append([]byte("\n"), manifests...), []byte("\n---")) {
		if nl := bytes.IndexByte(doc, '\n'); nl >= 0 { // what follows "---" on its line
			doc = doc[nl:]
		}
		var o Object
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, fmt.Errorf("api: document %d: %w", i+1, err)
		}
		if len(o) == 0 {
			continue
		}
		if o.text("kind") == "" || o.text("apiVersion") == "" || o.text("metadata", "name") == "" {
			return nil, fmt.Errorf("api: document %d has no apiVersion, kind or name", i+1)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// resource is where objects of a kind live.
type resource struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced"`
}

func groupPath(apiVersion string) string {
	if strings.Contains(apiVersion, "/") {
		return "/apis/" + apiVersion
	}
	return "/api/" + apiVersion
}

// resources asks the API server once per version what it has.
type resources map[string][]resource

func (r resources) find(ctx context.Context, c *Client, o Object) (resource, error) {
	version := o.text("apiVersion")
	if _, ok := r[version]; !ok {
		var list struct {
			Resources []resource `json:"resources"`
		}
		if err := c.Get(ctx, groupPath(version), &list); err != nil {
			return resource{}, err
		}
		r[version] = list.Resources
	}
	for _, res := range r[version] {
		if res.Kind == o.text("kind") && !strings.Contains(res.Name, "/") {
			return res, nil
		}
	}
	delete(r, version) // a definition that was applied just now appears in a moment
	return resource{}, fmt.Errorf("api: %s: %w", o, &StatusError{http.StatusNotFound, "no kind " + o.text("kind") + " in " + version})
}

func (o Object) path(r resource) string {
	p := groupPath(o.text("apiVersion"))
	if r.Namespaced {
		ns := o.text("metadata", "namespace")
		if ns == "" {
			ns = "default"
		}
		p += "/namespaces/" + ns
	}
	return p + "/" + r.Name + "/" + o.text("metadata", "name")
}

// Applied is an object that the API server has.
type Applied struct {
	Object Object
	Path   string
}

const applyPatience = 10 * time.Second // for kinds and namespaces that are applied in the same breath

// Apply applies objects in their order (server-side apply), waiting for kinds and namespaces that are about to appear.
func (c *Client) Apply(ctx context.Context, objects []Object) ([]Applied, error) {
	known := resources{}
	var applied []Applied
	for _, o := range objects {
		a, err := c.applyOne(ctx, known, o)
		if err != nil {
			return applied, fmt.Errorf("apply %s: %w", o, err)
		}
		applied = append(applied, a)
	}
	return applied, nil
}

func (c *Client) applyOne(ctx context.Context, known resources, o Object) (Applied, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Applied{}, err
	}
	deadline := time.Now().Add(applyPatience)
	for {
		res, err := known.find(ctx, c, o)
		if err == nil {
			path := o.path(res)
			err = c.do(ctx, http.MethodPatch, path+"?fieldManager="+fieldManager+"&force=true", "application/apply-patch+yaml", body, nil)
			if err == nil {
				return Applied{Object: o, Path: path}, nil
			}
		}
		if !notFound(err) || time.Now().After(deadline) {
			return Applied{}, err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return Applied{}, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
