package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podway/podway/internal/model"
)

const annotationPrefix = "podway.io/"

// leavingTaint is what the cluster autoscaler puts on a node before it takes it away.
const leavingTaint = "ToBeDeletedByClusterAutoscaler"

func nodeOf(n *corev1.Node) *model.Node {
	out := &model.Node{Name: n.Name, UID: string(n.UID), Zone: n.Labels[corev1.LabelTopologyZone], CPU: n.Status.Allocatable.Cpu().MilliValue(),
		Deleting: n.DeletionTimestamp != nil, Labels: n.Labels}
	for _, t := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if ip := addr(a.Address); a.Type == t && ip.IsValid() {
				out.Addrs = append(out.Addrs, ip)
			}
		}
	}
	cidrs := n.Spec.PodCIDRs
	if len(cidrs) == 0 && n.Spec.PodCIDR != "" {
		cidrs = []string{n.Spec.PodCIDR}
	}
	for _, c := range cidrs {
		if p, err := netip.ParsePrefix(c); err == nil {
			out.PodCIDRs = append(out.PodCIDRs, p.Masked())
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	out.Leaving = slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == leavingTaint })
	_, out.ExcludeLB = n.Labels[corev1.LabelNodeExcludeBalancers]
	for k, v := range n.Annotations {
		if strings.HasPrefix(k, annotationPrefix) {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[k] = v
		}
	}
	return out
}

func pod(p *corev1.Pod) *model.Pod {
	out := &model.Pod{
		Name: model.N(p.Namespace, p.Name), UID: string(p.UID), ResourceVersion: p.ResourceVersion, Labels: p.Labels,
		Node: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork, Phase: string(p.Status.Phase),
		Deleting: p.DeletionTimestamp != nil, Hostname: p.Spec.Hostname, Subdomain: p.Spec.Subdomain,
	}
	for _, ip := range p.Status.PodIPs {
		if a := addr(ip.IP); a.IsValid() {
			out.Addrs = append(out.Addrs, a)
		}
	}
	if a := addr(p.Status.PodIP); len(out.Addrs) == 0 && a.IsValid() {
		out.Addrs = []netip.Addr{a}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready, out.ReadySince = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
			if !out.Ready {
				out.Problem = strings.TrimSuffix(strings.TrimPrefix(c.Reason+": "+c.Message, ": "), ": ")
			}
		}
	}
	out.Problem = waiting(p, out.Problem)
	for i := range p.Spec.Containers { // before sidecars: the first port of a name is the one a targetPort means
		containerPorts(out, &p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; deref(c.RestartPolicy) == corev1.ContainerRestartPolicyAlways {
			containerPorts(out, c)
		}
	}
	return out
}

// waiting prefers the reason a container waits for (CrashLoopBackOff, ImagePullBackOff) to the Pod's general one.
func waiting(p *corev1.Pod, problem string) string {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" {
			return fmt.Sprintf("container %s: %s", c.Name, w.Reason)
		}
	}
	return problem
}

func containerPorts(out *model.Pod, c *corev1.Container) {
	for _, p := range c.Ports {
		out.Ports = append(out.Ports, model.ContainerPort{Name: p.Name, Protocol: protocol(p.Protocol),
			Port: uint16(p.ContainerPort), HostPort: uint16(p.HostPort), HostIP: addr(p.HostIP)})
	}
	if c.ReadinessProbe == nil {
		return
	}
	if out.Probe != "" {
		out.Probe += "; "
	}
	out.Probe += probeWords(&c.ReadinessProbe.ProbeHandler)
}

func probeWords(h *corev1.ProbeHandler) string {
	switch {
	case h.HTTPGet != nil:
		path := h.HTTPGet.Path
		if path == "" {
			path = "/"
		}
		return fmt.Sprintf("GET :%s%s", h.HTTPGet.Port.String(), path)
	case h.TCPSocket != nil:
		return "TCP :" + h.TCPSocket.Port.String()
	case h.GRPC != nil:
		return fmt.Sprintf("gRPC health :%d", h.GRPC.Port)
	case h.Exec != nil:
		return "exec " + strings.Join(h.Exec.Command, " ")
	}
	return "none"
}
