package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// addFarNode makes the far node and keeps its lease fresh, as a kubelet would.
func (w *world) addFarNode(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: farNode, Labels: map[string]string{"kubernetes.io/hostname": farNode}},
		Spec: corev1.NodeSpec{PodCIDR: farPods, PodCIDRs: []string{farPods}, Unschedulable: true}}
	if _, err := w.api.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	now := metav1.Now()
	status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: farAddress}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}},
	}})
	if err != nil {
		return err
	}
	if _, err := w.api.CoreV1().Nodes().Patch(ctx, farNode, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	leases := w.api.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	name, seconds := farNode, int32(40)
	at := metav1.NowMicro()
	lease, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &at}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ctx, w.beat = context.WithCancel(ctx)
	go func() {
		for tick := time.Tick(2 * time.Second); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			at := metav1.NowMicro()
			lease.Spec.RenewTime = &at
			if next, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
				lease = next
			} else if ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "%s: lease of node %s: %v\n", w.name, farNode, err)
			}
		}
	}()
	return nil
}

// fill makes the Services with a Ready Pod each, and waits until the last one answers.
func (w *world) fill(ctx context.Context, services int) error {
	fmt.Fprintf(os.Stderr, "%s: making %d Services\n", w.name, services)
	if _, err := w.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, time.Minute, func() error {
		_, err := w.api.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	w.ready, w.addrs = make([]bool, services), make([]netip.Addr, services)
	var made atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range services {
		group.Go(func() error {
			if n := made.Add(1); n%2000 == 0 {
				fmt.Fprintf(os.Stderr, "%s: %d Services\n", w.name, n)
			}
			return w.makeService(ctx, i)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range services {
		w.ready[i] = true
	}
	fmt.Fprintf(os.Stderr, "%s: waiting until they answer\n", w.name)
	return eventually(context.WithoutCancel(ctx), 10*time.Minute, func() error { return w.connect(services - 1) })
}

func nameOf(i int) string { return fmt.Sprintf("svc-%05d", i) }

// The addresses of Service and Pod i.
func clusterIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 96, byte(16 + i/250), byte(1 + i%250)})
}
func podIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 128, byte(i / 250), byte(1 + i%250)})
}

func (w *world) makeService(ctx context.Context, i int) error {
	app := map[string]string{"app": nameOf(i)}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: nameOf(i)}, Spec: corev1.ServiceSpec{
		ClusterIP: clusterIP(i).String(), Selector: app, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(listenPort)}}}}
	made, err := w.api.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
	if apierrors.IsInvalid(err) { // the cluster's own Services have addresses by chance
		svc.Spec.ClusterIP = ""
		made, err = w.api.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	w.addrs[i] = netip.MustParseAddr(made.Spec.ClusterIP)
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: nameOf(i), Labels: app}, Spec: corev1.PodSpec{
		NodeName: farNode, AutomountServiceAccountToken: &no, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "c", Image: "none", ImagePullPolicy: corev1.PullNever}}}}
	if _, err := w.api.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	ip := podIP(i).String()
	return w.patch(ctx, i, map[string]any{"phase": "Running", "podIP": ip, "podIPs": []map[string]string{{"ip": ip}},
		"conditions": []map[string]any{condition(true)}})
}

func condition(ready bool) map[string]any {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return map[string]any{"type": corev1.PodReady, "status": status, "lastTransitionTime": metav1.Now()}
}

// setReady is what a kubelet writes when a Pod's readiness changes.
func (w *world) setReady(ctx context.Context, i int, ready bool) error {
	return w.patch(ctx, i, map[string]any{"conditions": []map[string]any{condition(ready)}})
}

func (w *world) patch(ctx context.Context, i int, status map[string]any) error {
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = w.api.CoreV1().Pods(namespace).Patch(ctx, nameOf(i), types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}
