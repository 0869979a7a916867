package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podway/podway/internal/model"
)

// Convert turns an API object into its model object (*model.Service and so on); nil for a kind, or a Secret type, that
// the model does not know.
func Convert(obj any) any {
	switch o := obj.(type) {
	case *corev1.Service:
		return service(o)
	case *discoveryv1.EndpointSlice:
		return endpointSlice(o)
	case *corev1.Node:
		return nodeOf(o)
	case *corev1.Pod:
		return pod(o)
	case *networkingv1.Ingress:
		return ingress(o)
	case *networkingv1.IngressClass:
		return ingressClass(o)
	case *networkingv1.ServiceCIDR:
		return serviceCIDR(o)
	case *corev1.Secret:
		if s := secret(o); s != nil {
			return s
		}
	case *AddressPool:
		return pool(o)
	case *unstructured.Unstructured:
		return poolFromUnstructured(o)
	case *appsv1.Deployment:
		return workload("Deployment", o.Namespace, o.Name, replicas(o.Spec.Replicas), o.Spec.Template.Labels)
	case *appsv1.StatefulSet:
		return workload("StatefulSet", o.Namespace, o.Name, replicas(o.Spec.Replicas), o.Spec.Template.Labels)
	case *appsv1.DaemonSet:
		return workload("DaemonSet", o.Namespace, o.Name, -1, o.Spec.Template.Labels)
	}
	return nil
}

func workload(kind, ns, name string, n int, labels map[string]string) *model.Workload {
	return &model.Workload{Kind: kind, Name: model.N(ns, name), Replicas: n, Labels: labels}
}

func replicas(p *int32) int {
	if p == nil {
		return 1
	}
	return int(*p)
}
