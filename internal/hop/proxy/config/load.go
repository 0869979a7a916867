// Package config reads kube-proxy's configuration, a KubeProxyConfiguration v1alpha1, and says what it means to podway's
// service proxy: Settings for the rules, and the rest (addresses, connection tracking, client). It opens no file, reads no
// flag and touches no kernel.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/kube-proxy/config/v1alpha1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Kind and APIVersion are the only ones that Load takes.
const (
	Kind       = "KubeProxyConfiguration"
	APIVersion = "kubeproxy.config.k8s.io/v1alpha1"
)

// File is a configuration with the keys that were given a value of their own, such as "conntrack.min".
type File struct {
	v1alpha1.KubeProxyConfiguration
	Given []string
}

// Load reads a file. Keys that a KubeProxyConfiguration does not have are an error that names all of them with their path;
// name is the file's, for errors. Defaults are not filled in.
func Load(name string, data []byte) (*File, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if n := documents(data); n > 1 {
		err = fmt.Errorf("%d YAML documents: want one", n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var head struct{ Kind, APIVersion string }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%s: not a %s: %w", name, Kind, err)
	}
	if head.Kind != Kind || head.APIVersion != APIVersion {
		return nil, fmt.Errorf("%s: kind %q of apiVersion %q: want kind: %s and apiVersion: %s", name, head.Kind, head.APIVersion, Kind, APIVersion)
	}
	f := &File{}
	strict, err := kjson.UnmarshalStrict(text, &f.KubeProxyConfiguration)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("%s: %w", name, errors.Join(strict...))
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.Given = given("", all)
	slices.Sort(f.Given)
	return f, nil
}

// documents counts the documents that hold more than comments.
func documents(data []byte) (n int) {
	fresh := true
	for line := range strings.Lines(string(data)) {
		switch line = strings.TrimRight(line, " \t\r\n"); {
		case line == "---" || strings.HasPrefix(line, "--- "):
			fresh = true
		case fresh && line != "" && !strings.HasPrefix(strings.TrimSpace(line), "#"):
			n, fresh = n+1, false
		}
	}
	return n
}

// given are the paths of all keys whose value is not the zero value of its type: generated files hold every key.
func given(at string, v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			out = append(out, given(strings.TrimPrefix(at+"."+k, "."), x)...)
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
	case nil:
		return nil
	case bool:
		if !v && !strings.HasPrefix(at, "featureGates.") {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
	case string:
		if v == "" || v == "0" || v == "0s" {
			return nil
		}
	}
	return []string{at}
}

// Write is the configuration as a file.
func Write(c *v1alpha1.KubeProxyConfiguration) ([]byte, error) {
	out := *c
	out.Kind, out.APIVersion = Kind, APIVersion
	b, err := yaml.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", Kind, err)
	}
	return b, nil
}
