package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	namespace     = "demo"
	shopHost      = "shop.example"
	grpcHost      = "grpc.example"
	clientAddress = "203.0.113.9" // of the lab's routed client
	nodePort      = "30080"
	nodePortUDP   = "30901"
)

// pod is a Pod of the demo.
type pod struct{ Name, App, Node, Addr string }

// world is what the demo's objects became: names, nodes, addresses.
type world struct {
	user      *user
	nodes     map[string]string // name -> address
	clients   []pod             // by node, sorted
	onNodes   []pod             // clients in the nodes' own network
	echoes    []pod
	solo      pod
	lbIP      string // of Service echo-lb
	ingressIP string // of Service podway-ingress
}

type podList struct {
	Items []struct {
		Metadata struct {
			Name              string
			Labels            map[string]string
			DeletionTimestamp string
		}
		Spec   struct{ NodeName string }
		Status struct{ PodIP string }
	}
}

// learn reads names and addresses, and waits for the LoadBalancer addresses.
func learn(ctx context.Context, u *user) (*world, error) {
	w := &world{user: u, nodes: map[string]string{}}
	if err := w.readPods(ctx); err != nil {
		return nil, err
	}
	nodes, err := u.kubectl(ctx, "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(nodes) {
		name, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
		w.nodes[name] = addr
	}
	if w.lbIP, err = w.loadBalancerIP(ctx, namespace, "echo-lb"); err != nil {
		return nil, err
	}
	w.ingressIP, err = w.loadBalancerIP(ctx, "kube-system", "podway-ingress")
	return w, err
}

func (w *world) readPods(ctx context.Context) error {
	out, err := w.user.kubectl(ctx, "-n", namespace, "get", "pods", "-o", "json")
	if err != nil {
		return err
	}
	var list podList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return fmt.Errorf("demo: read Pods: %w", err)
	}
	w.clients, w.onNodes, w.echoes, w.solo = nil, nil, nil, pod{}
	for _, it := range list.Items {
		if it.Metadata.DeletionTimestamp != "" {
			continue
		}
		p := pod{it.Metadata.Name, it.Metadata.Labels["app"], it.Spec.NodeName, it.Status.PodIP}
		switch p.App {
		case "client":
			w.clients = append(w.clients, p)
		case "node-client":
			w.onNodes = append(w.onNodes, p)
		case "echo":
			w.echoes = append(w.echoes, p)
		case "solo":
			w.solo = p
		}
	}
	byNode := func(a, b pod) int { return strings.Compare(a.Node+a.Name, b.Node+b.Name) }
	slices.SortFunc(w.clients, byNode)
	slices.SortFunc(w.echoes, byNode)
	if len(w.clients) < 2 || len(w.onNodes) < 2 || len(w.echoes) < 2 || w.solo.Name == "" {
		return fmt.Errorf("demo: want 2 clients, 2 on the nodes, 2 echo Pods and one solo, got %d, %d, %d, %q",
			len(w.clients), len(w.onNodes), len(w.echoes), w.solo.Name)
	}
	return nil
}

func (w *world) loadBalancerIP(ctx context.Context, ns, name string) (string, error) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		ip, err := w.user.kubectl(ctx, "-n", ns, "get", "service", name, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
		if err != nil || ip != "" {
			return ip, err
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("demo: Service %s/%s has no LoadBalancer address after 20 s", ns, name)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// otherNode is a node that the Pod does not run on.
func (w *world) otherNode(p pod) string {
	for _, c := range w.clients {
		if c.Node != p.Node {
			return c.Node
		}
	}
	return ""
}
