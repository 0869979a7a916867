package lab

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podway/podway/internal/lab/api"
	"github.com/podway/podway/internal/lab/spec"
)

// imageAnnotation on a pod template holds the age of the image podway.local/podway:dev, so that pods are replaced when
// the program was built anew under the same tag.
const imageAnnotation = "podway.local/built"

// stampImages marks the pod templates that use podway's own images.
func stampImages(c spec.Cluster, objects []api.Object) {
	st, err := os.Stat(filepath.Join(c.Images(), filepath.Base(c.Podway)+".tar"))
	if err != nil {
		return // no image of podway in this lab
	}
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
	}
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
