package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// patches names, by manifest, the patch in the folder of a proxy mode that has one: what the mode needs and others must not
// have is nowhere else.
var patches = map[string]string{"30-node.yaml": "node.yaml", "proxy/proxy.yaml": "proxy.yaml"}

// read returns a manifest as the proxy mode wants it.
func (o Options) read(name string) ([]byte, error) {
	b, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("deploy: read %s: %w", name, err)
	}
	if patches[name] == "" || o.ProxyMode == "" {
		return b, nil
	}
	patch, err := files.ReadFile(path.Join("modes", o.ProxyMode, patches[name]))
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil // this mode needs nothing more
	}
	if err == nil {
		b, err = patched(b, patch)
	}
	if err != nil {
		return nil, fmt.Errorf("deploy: %s in mode %s: %w", name, o.ProxyMode, err)
	}
	return b, nil
}

var separator = []byte("\n---\n")

// patched applies a strategic merge patch to the DaemonSet among documents; the others stay as they are written.
func patched(docs, patch []byte) ([]byte, error) {
	merge, err := yaml.YAMLToJSON(patch)
	if err != nil {
		return nil, err
	}
	all, done := bytes.Split(docs, separator), false
	for i, doc := range all {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			return nil, err
		}
		if head.Kind != "DaemonSet" {
			continue
		}
		if all[i], err = merged(doc, merge); err != nil {
			return nil, err
		}
		done = true
	}
	if !done {
		return nil, errors.New("no DaemonSet to patch")
	}
	return bytes.Join(all, separator), nil
}

func merged(doc, patch []byte) ([]byte, error) {
	whole, err := yaml.YAMLToJSON(doc)
	if err != nil {
		return nil, err
	}
	whole, err = strategicpatch.StrategicMergePatch(whole, patch, appsv1.DaemonSet{})
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(whole)
}
