package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/podway/podway/internal/model"
)

// kinds makes an empty API object for each apiVersion/kind that the model knows.
var kinds = map[string]func() metav1.Object{
	"v1/Service":                        func() metav1.Object { return &corev1.Service{} },
	"v1/Node":                           func() metav1.Object { return &corev1.Node{} },
	"v1/Pod":                            func() metav1.Object { return &corev1.Pod{} },
	"v1/Endpoints":                      func() metav1.Object { return &corev1.Endpoints{} }, //nolint:staticcheck // deprecated, and still mirrored
	"v1/Secret":                         func() metav1.Object { return &corev1.Secret{} },
	"discovery.k8s.io/v1/EndpointSlice": func() metav1.Object { return &discoveryv1.EndpointSlice{} },
	"networking.k8s.io/v1/Ingress":      func() metav1.Object { return &networkingv1.Ingress{} },
	"networking.k8s.io/v1/IngressClass": func() metav1.Object { return &networkingv1.IngressClass{} },
	"networking.k8s.io/v1/ServiceCIDR":  func() metav1.Object { return &networkingv1.ServiceCIDR{} },
	"apps/v1/Deployment":                func() metav1.Object { return &appsv1.Deployment{} },
	"apps/v1/StatefulSet":               func() metav1.Object { return &appsv1.StatefulSet{} },
	"apps/v1/DaemonSet":                 func() metav1.Object { return &appsv1.DaemonSet{} },
	PoolResource.GroupVersion().String() + "/AddressPool": func() metav1.Object { return &AddressPool{} },
}

// clusterWide are the kinds without a namespace; all others default to "default".
var clusterWide = map[string]bool{"Node": true, "IngressClass": true, "AddressPool": true, "ServiceCIDR": true}

// DecodeAPI reads YAML or JSON documents into API objects. Kinds that podway has no use for are left out, and so are
// empty documents; an unknown field or a wrong type is an error that names object and field. Objects before and after a
// bad one are returned with the joined error.
func DecodeAPI(data []byte) ([]metav1.Object, error) {
	var out []metav1.Object
	var errs []error
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, errors.Join(errs...)
		}
		if err != nil {
			return out, errors.Join(append(errs, fmt.Errorf("document %d: %w", n, err))...)
		}
		objs, err := decodeDocument(doc)
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", n, err))
		}
		out = append(out, objs...)
	}
}

func decodeDocument(doc []byte) ([]metav1.Object, error) {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct{ Name, Namespace string } `json:"metadata"`
		Items           []any                            `json:"items"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return nil, err
	}
	if head.Kind == "" {
		if len(bytes.TrimSpace(stripComments(doc))) == 0 {
			return nil, nil
		}
		return nil, errors.New("no kind and apiVersion: not a Kubernetes object")
	}
	if strings.HasSuffix(head.Kind, "List") && head.Items != nil {
		return decodeList(head.Items)
	}
	make, ok := kinds[head.APIVersion+"/"+head.Kind]
	if !ok {
		return nil, nil
	}
	obj := make()
	if err := yaml.UnmarshalStrict(doc, obj); err != nil {
		return nil, fmt.Errorf("%s %s: %w", head.Kind, model.N(head.Metadata.Namespace, head.Metadata.Name), err)
	}
	if obj.GetName() == "" {
		return nil, fmt.Errorf("%s: metadata.name is missing", head.Kind)
	}
	if obj.GetNamespace() == "" && !clusterWide[head.Kind] {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	if err := validate(obj); err != nil {
		return nil, fmt.Errorf("%s %s: %w", head.Kind, model.N(obj.GetNamespace(), obj.GetName()), err)
	}
	return []metav1.Object{obj}, nil
}

func decodeList(items []any) (out []metav1.Object, err error) {
	var errs []error
	for i, it := range items {
		doc, err := yaml.Marshal(it)
		if err == nil {
			var objs []metav1.Object
			objs, err = decodeDocument(doc)
			out = append(out, objs...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
	}
	return out, errors.Join(errs...)
}

// Decode reads documents as DecodeAPI does and converts them to model objects.
func Decode(data []byte) ([]any, error) {
	objs, err := DecodeAPI(data)
	out := make([]any, 0, len(objs))
	for _, o := range objs {
		if m := Convert(o); m != nil {
			out = append(out, m)
		}
	}
	return out, err
}

func stripComments(doc []byte) []byte {
	var out []byte
	for line := range bytes.Lines(doc) {
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' && string(t) != "---" {
			out = append(out, line...)
		}
	}
	return out
}
