package cluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podway/podway/internal/model"
)

// PoolResource is the AddressPool resource: cluster-wide, group podway.io.
var PoolResource = schema.GroupVersionResource{Group: "podway.io", Version: "v1alpha1", Resource: "addresspools"}

// AddressPool is the podway.io/v1alpha1 object as YAML spells it.
type AddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              AddressPoolSpec `json:"spec"`
	Status            map[string]any  `json:"status,omitempty"`
}

// AddressPoolSpec lists what a pool may give.
type AddressPoolSpec struct {
	Addresses  []string `json:"addresses"`            // CIDR, "from-to", or one address
	AutoAssign *bool    `json:"autoAssign,omitempty"` // default true
}

func pool(p *AddressPool) *model.Pool {
	out := &model.Pool{Name: p.Name, AutoAssign: p.Spec.AutoAssign == nil || *p.Spec.AutoAssign}
	for i, s := range p.Spec.Addresses {
		r, ok := addrRange(s)
		if !ok {
			out.Problem = fmt.Sprintf("spec.addresses[%d]: %q is no CIDR, range or address", i, s)
			continue
		}
		out.Ranges = append(out.Ranges, r)
	}
	if len(p.Spec.Addresses) == 0 {
		out.Problem = "spec.addresses is empty"
	}
	return out
}

func poolFromUnstructured(u *unstructured.Unstructured) *model.Pool {
	var p AddressPool
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		return &model.Pool{Name: u.GetName(), Problem: err.Error()}
	}
	return pool(&p)
}
