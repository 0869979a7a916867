package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// path is one way of a request; run sends it and says who answered.
type path struct {
	name string
	run  func(ctx context.Context, w *world) (string, error)
}

// reply is what the echo server says in JSON.
type reply struct {
	Pod       string `json:"pod"`
	Node      string `json:"node"`
	Client    string `json:"client"`
	Host      string `json:"host"`
	Path      string `json:"path"`
	Proto     string `json:"proto"`
	TLS       bool   `json:"tls"`
	Forwarded string `json:"forwardedFor"`
}

func (r reply) String() string {
	return fmt.Sprintf("%s on %s saw %s", r.Pod, r.Node, strings.Split(r.Client, ":")[0])
}

// paths are all ways of the demo, in the order in which a newcomer would ask for them.
func paths() []path {
	return []path{
		{"Pod -> short name -> ClusterIP -> Pod on the other node", fromClientToEcho(func(a, b string) bool { return a != b })},
		{"Pod -> short name -> ClusterIP -> Pod on the same node", fromClientToEcho(func(a, b string) bool { return a == b })},
		{"Pod -> its own Service -> itself", toItself},
		{"Pod -> name in another namespace's form (echo.demo.svc)", toFullName},
		{"Pod -> headless name -> each Pod's own address", headless},
		{"Pod -> SRV and PTR records", records},
		{"Pod -> ClusterIP, TCP", clientSays("tcp", "echo:9000")},
		{"Pod -> ClusterIP, UDP", clientSays("udp", "echo:9001")},
		{"node -> ClusterIP -> Pod", nodeToClusterIP},
		{"outside -> NodePort of the node with the Pod", nodePortOn(func(w *world) string { return w.solo.Node })},
		{"outside -> NodePort of a node without the Pod", nodePortOn(func(w *world) string { return w.otherNode(w.solo) })},
		{"outside -> NodePort, UDP", nodePortOverUDP},
		{"Pod -> NodePort of the other node", podToNodePort},
		{"outside -> LoadBalancer address, own client address kept", outsideToLB},
		{"Pod -> LoadBalancer address", podToLB},
		{"outside -> LoadBalancer address -> Ingress, TLS, path / -> Pod", ingress("/hello", "echo")},
		{"outside -> LoadBalancer address -> Ingress, TLS, path /solo -> Pod", ingress("/solo/x", "solo")},
		{"outside -> Ingress, TLS, WebSocket -> Pod", ingressWebSocket},
		{"outside -> Ingress, TLS, HTTP/2, gRPC -> Pod", ingressGRPC},
		{"outside -> Ingress, unknown host -> 404", ingressUnknown},
		{"Pod -> LoadBalancer address -> Ingress -> Pod", podToIngress},
	}
}

// ask sends an HTTP request and reads the reply; how runs the echo client.
func ask(how func(args ...string) (string, error), args ...string) (reply, error) {
	out, err := how(append([]string{"get", "-H", "Accept: application/json"}, args...)...)
	if err != nil {
		return reply{}, err
	}
	var r reply
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return r, fmt.Errorf("no echo in %.200q", out)
	}
	return r, nil
}

func (w *world) pod(ctx context.Context, name string) func(...string) (string, error) {
	return func(args ...string) (string, error) { return w.user.inPod(ctx, name, args...) }
}

func (w *world) at(ctx context.Context, where string) func(...string) (string, error) {
	return func(args ...string) (string, error) { return w.user.from(ctx, where, args...) }
}

// fromClientToEcho asks until a Pod answers whose node stands to the client's as wanted: the choice is random and even,
// so 40 tries miss one of two Pods once in 10^12.
func fromClientToEcho(wanted func(clientNode, podNode string) bool) func(context.Context, *world) (string, error) {
	return func(ctx context.Context, w *world) (string, error) {
		c, seen := w.clients[0], map[string]bool{}
		for range 40 {
			r, err := ask(w.pod(ctx, c.Name), "http://echo/")
			if err != nil {
				return "", err
			}
			if wanted(c.Node, r.Node) {
				return r.String(), want(r.Client, c.Addr, "client address seen")
			}
			seen[r.Node] = true
		}
		return "", fmt.Errorf("40 requests from %s were answered only on %v", c.Node, seen)
	}
}

func toItself(ctx context.Context, w *world) (string, error) {
	r, err := ask(w.pod(ctx, w.solo.Name), "http://solo/")
	if err != nil {
		return "", err
	}
	return r.String(), want(r.Pod, w.solo.Name, "Pod")
}

func toFullName(ctx context.Context, w *world) (string, error) {
	r, err := ask(w.pod(ctx, w.clients[1].Name), "http://echo."+namespace+".svc/")
	return r.String(), err
}

func headless(ctx context.Context, w *world) (string, error) {
	out, err := w.user.inPod(ctx, w.clients[0].Name, "dig", "A", "echo-pods")
	if err != nil {
		return "", err
	}
	for _, p := range w.echoes {
		if !strings.Contains(out, p.Addr) {
			return "", fmt.Errorf("the answer lacks %s: %q", p.Addr, out)
		}
		r, err := ask(w.pod(ctx, w.clients[0].Name), "http://"+p.Addr+":8080/")
		if err != nil {
			return "", err
		}
		if err := want(r.Pod, p.Name, "Pod at "+p.Addr); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d Pods", len(w.echoes)), nil
}

func records(ctx context.Context, w *world) (string, error) {
	srv, err := w.user.inPod(ctx, w.clients[0].Name, "dig", "SRV", "_http._tcp.echo."+namespace+".svc.cluster.local")
	if err != nil {
		return "", err
	}
	if !strings.Contains(srv, " 80 echo."+namespace+".svc.cluster.local.") {
		return "", fmt.Errorf("SRV says %q", srv)
	}
	ptr, err := w.user.inPod(ctx, w.clients[0].Name, "dig", "PTR", "10.0.96.10.in-addr.arpa")
	if err != nil {
		return "", err
	}
	if !strings.Contains(ptr, "kube-dns.kube-system.svc.cluster.local.") {
		return "", fmt.Errorf("PTR of 10.96.0.10 says %q", ptr)
	}
	return "SRV port 80, PTR kube-dns", nil
}

func clientSays(proto, target string) func(context.Context, *world) (string, error) {
	return func(ctx context.Context, w *world) (string, error) {
		out, err := w.user.inPod(ctx, w.clients[0].Name, proto, target)
		return w.namedIn(out, w.echoes, err)
	}
}

func nodeToClusterIP(ctx context.Context, w *world) (string, error) {
	ip, err := w.user.kubectl(ctx, "-n", namespace, "get", "service", "echo", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return "", err
	}
	r, err := ask(w.pod(ctx, w.onNodes[0].Name), "http://"+ip+"/")
	return r.String(), err
}

func nodePortOn(node func(*world) string) func(context.Context, *world) (string, error) {
	return func(ctx context.Context, w *world) (string, error) {
		r, err := ask(w.at(ctx, "client"), "http://"+w.nodes[node(w)]+":"+nodePort+"/")
		if err != nil {
			return "", err
		}
		return "asked " + node(w) + ": " + r.String(), want(r.Pod, w.solo.Name, "Pod")
	}
}

func nodePortOverUDP(ctx context.Context, w *world) (string, error) {
	out, err := w.user.from(ctx, "client", "udp", w.nodes[w.otherNode(w.solo)]+":"+nodePortUDP)
	return w.namedIn(out, []pod{w.solo}, err)
}

func podToNodePort(ctx context.Context, w *world) (string, error) {
	other := w.otherNode(w.clients[0])
	r, err := ask(w.pod(ctx, w.clients[0].Name), "http://"+w.nodes[other]+":"+nodePort+"/")
	return r.String(), err
}

func outsideToLB(ctx context.Context, w *world) (string, error) {
	r, err := ask(w.at(ctx, "client"), "http://"+w.lbIP+"/")
	if err != nil {
		return "", err
	}
	return r.String(), want(r.Client, clientAddress, "client address seen")
}

func podToLB(ctx context.Context, w *world) (string, error) {
	r, err := ask(w.pod(ctx, w.clients[0].Name), "http://"+w.lbIP+"/")
	return r.String(), err
}

func ingress(urlPath, app string) func(context.Context, *world) (string, error) {
	return func(ctx context.Context, w *world) (string, error) {
		r, err := ask(w.at(ctx, "client"), "-k", "--resolve", shopHost+"="+w.ingressIP, "https://"+shopHost+urlPath)
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(r.Pod, app+"-") || r.Host != shopHost || r.Path != urlPath {
			return "", fmt.Errorf("got Pod %s, host %s, path %s", r.Pod, r.Host, r.Path)
		}
		return r.String(), want(r.Forwarded, clientAddress, "X-Forwarded-For")
	}
}

func ingressWebSocket(ctx context.Context, w *world) (string, error) {
	out, err := w.user.from(ctx, "client", "ws", "-k", "-resolve", shopHost+"="+w.ingressIP, "wss://"+shopHost+"/ws", "hello")
	if err == nil && !strings.Contains(out, "\nhello\n") {
		return "", fmt.Errorf("the message did not come back: %q", out)
	}
	return w.namedIn(out, w.echoes, err)
}

func ingressGRPC(ctx context.Context, w *world) (string, error) {
	out, err := w.user.from(ctx, "client", "grpc", "-tls", "-k", "-authority", grpcHost, w.ingressIP+":443", "hello")
	return w.namedIn(out, w.echoes, err)
}

func ingressUnknown(ctx context.Context, w *world) (string, error) {
	_, err := w.user.from(ctx, "client", "get", "--resolve", "nobody.example="+w.ingressIP, "http://nobody.example/")
	if err == nil || !strings.Contains(err.Error(), "404") {
		return "", fmt.Errorf("want status 404, got %v", err)
	}
	return "404", nil
}

func podToIngress(ctx context.Context, w *world) (string, error) {
	r, err := ask(w.pod(ctx, w.clients[0].Name), "-k", "--resolve", shopHost+"="+w.ingressIP, "https://"+shopHost+"/")
	return r.String(), err
}

func (w *world) namedIn(out string, pods []pod, err error) (string, error) {
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(pods, func(p pod) bool { return strings.Contains(out, p.Name) })
	if i < 0 {
		return "", fmt.Errorf("no Pod of ours in %.200q", out)
	}
	return pods[i].Name + " on " + pods[i].Node, nil
}

func want(got, wanted, what string) error {
	if got != wanted && !strings.HasPrefix(got, wanted+":") {
		return fmt.Errorf("%s is %s, want %s", what, got, wanted)
	}
	return nil
}
