package lab

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podway/podway/internal/lab/api"
	"github.com/podway/podway/internal/lab/spec"
)

// Annotations on a pod template, so that pods are replaced when what they were made of is another.
const (
	imageAnnotation  = "podway.local/built"  // age of the image podway.local/podway:dev, which keeps its tag
	configAnnotation = "podway.local/config" // digest of the ConfigMap podway, which is read at start only
)

// stampImages marks the pod templates that use podway's own images.
func stampImages(c spec.Cluster, objects []api.Object) {
	st, err := os.Stat(filepath.Join(c.Images(), filepath.Base(c.Podway)+".tar"))
	if err != nil {
		return // no image of podway in this lab
	}
	config := configDigest(objects)
	for _, o := range objects {
		template := child(child(o, "spec"), "template")
		pod := child(template, "spec")
		if pod == nil || !usesPodway(pod) {
			continue
		}
		metadata := child(template, "metadata")
		if metadata == nil {
			metadata = map[string]any{}
			template["metadata"] = metadata
		}
		annotations := child(metadata, "annotations")
		if annotations == nil {
			annotations = map[string]any{}
			metadata["annotations"] = annotations
		}
		annotations[imageAnnotation] = st.ModTime().UTC().Format(time.RFC3339Nano)
		annotations[configAnnotation] = config
	}
}

// configDigest tells the contents of podway's ConfigMap from others.
func configDigest(objects []api.Object) string {
	for _, o := range objects {
		if o.String() == "configmap/podway" {
			b, _ := json.Marshal(o["data"]) // it was decoded from JSON
			return fmt.Sprintf("%x", sha256.Sum256(b))[:16]
		}
	}
	return ""
}

func child(o map[string]any, key string) map[string]any {
	m, _ := o[key].(map[string]any)
	return m
}

func usesPodway(pod map[string]any) bool {
	for _, key := range []string{"containers", "initContainers"} {
		list, _ := pod[key].([]any)
		for _, c := range list {
			m, _ := c.(map[string]any)
			if name, _ := m["image"].(string); strings.HasPrefix(name, "podway.local/podway:") {
				return true
			}
		}
	}
	return false
}
