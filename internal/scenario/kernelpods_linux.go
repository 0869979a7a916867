package scenario

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

func nameOf(s string) model.Name {
	ns, name, _ := strings.Cut(s, "/")
	return model.N(ns, name)
}

// removePods takes away the Pods that are gone or were made anew.
func (w *kernelWorld) removePods(ctx context.Context, st *State) error {
	var gone []model.Name
	for name, kp := range w.pods {
		if p := st.Snapshot.Pods.At(name); !lives(p) || p.UID != kp.uid {
			gone = append(gone, name)
		}
	}
	return each(gone, func(name model.Name) error {
		kp := w.pods[name]
		kp.server.Close()
		if kp.ingress != nil {
			kp.ingress.stop()
		}
		if kp.host == kp.node.host {
			return nil
		}
		if kp.node.opts.Cgroup != "" {
			_ = os.Remove(filepath.Join(kp.node.opts.NetnsDir(), containerID(kp.uid)))
		}
		return kp.cni(ctx, "DEL", name)
	})
}

// addPods attaches the Pods that are new with the CNI plugin, as a kubelet would, node by node.
func (w *kernelWorld) addPods(ctx context.Context, st *State) error {
	byNode := map[string][]*model.Pod{}
	for name, kp := range w.pods {
		if p := st.Snapshot.Pods.At(name); !lives(p) || p.UID != kp.uid {
			delete(w.pods, name)
		}
	}
	for p := range st.Snapshot.Pods.Values() {
		if w.pods[p.Name] == nil && lives(p) && w.nodes[p.Node] != nil {
			byNode[p.Node] = append(byNode[p.Node], p)
		}
	}
	var queues [][]*model.Pod
	for _, pods := range byNode {
		slices.SortFunc(pods, func(a, b *model.Pod) int { return a.Name.Compare(b.Name) })
		for _, p := range pods {
			if err := w.newPod(p); err != nil {
				return err
			}
		}
		queues = append(queues, pods)
	}
	return each(queues, func(pods []*model.Pod) error {
		for _, p := range pods {
			if err := w.pods[p.Name].attach(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *kernelWorld) newPod(p *model.Pod) (err error) {
	kp := &kernelPod{uid: p.UID, node: w.nodes[p.Node], ports: map[nettest.Port]bool{}}
	kp.host = kp.node.host
	if !p.HostNetwork {
		if kp.host, err = w.net.AddNamespace(p.Name.String()); err != nil {
			return err
		}
		kp.host.InCgroupOf(kp.node.host)
		if kp.node.opts.Cgroup != "" {
			if err := os.Symlink(kp.host.NS().Path(), filepath.Join(kp.node.opts.NetnsDir(), containerID(p.UID))); err != nil {
				return err
			}
		}
	}
	if kp.server, err = kp.host.Serve(p.Name.String()); err != nil {
		return err
	}
	w.pods[p.Name] = kp
	return nil
}

// attach gives the Pod its link. The store is told which address was given last, so that the Pod's is the next one.
func (kp *kernelPod) attach(ctx context.Context, p *model.Pod) error {
	if kp.host == kp.node.host {
		return nil
	}
	store := kp.node.opts.StoreDir()
	if err := os.MkdirAll(store, 0o700); err != nil {
		return err
	}
	for _, a := range p.Addrs {
		family := ".last-ipv4"
		if a.Is6() {
			family = ".last-ipv6"
		}
		if err := os.WriteFile(filepath.Join(store, family), []byte(a.Prev().String()), 0o600); err != nil {
			return err
		}
	}
	if err := kp.cni(ctx, "ADD", p.Name); err != nil {
		return err
	}
	return kp.hasAddrs(p)
}

// hasAddrs makes sure that the plugin gave the addresses that the Pod's status says.
func (kp *kernelPod) hasAddrs(p *model.Pod) error {
	have, err := kp.host.Addresses("eth0")
	if err != nil {
		return fmt.Errorf("pod %s: %w", p.Name, err)
	}
	for _, a := range p.Addrs {
		if !slices.Contains(have, a) {
			return fmt.Errorf("pod %s: status.podIPs has %s, but the CNI plugin of node %s gave %v", p.Name, a, p.Node, have)
		}
	}
	return nil
}

// cni runs the plugin in the node's namespace, as a container runtime does.
func (kp *kernelPod) cni(ctx context.Context, command string, name model.Name) error {
	plugin := filepath.Join(filepath.Dir(kp.node.opts.Dir), podnet.PluginName)
	p, err := kp.node.host.Start(ctx, []string{plugin},
		"CNI_COMMAND="+command, "CNI_CONTAINERID="+containerID(kp.uid), "CNI_IFNAME=eth0", "CNI_PATH="+filepath.Dir(plugin),
		"CNI_NETNS="+kp.host.NS().Path(), fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s", name.Namespace, name.Name))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdin, `{"cniVersion":"1.1.0","name":%q,"type":%q,"config":%q,"store":%q}`, podnet.NetworkName, podnet.PluginName,
		kp.node.opts.ConfigPath(), kp.node.opts.StoreDir())
	if err != nil {
		return err
	}
	p.Stdin.Close()
	said, _ := io.ReadAll(p.Stdout)
	if err := p.Stop(5 * time.Second); err != nil {
		return fmt.Errorf("pod %s: CNI %s: %w: %s %s", name, command, err, said, lastLines(p.Stderr(), 3))
	}
	return nil
}

// containerID makes of a UID what the CNI specification allows.
func containerID(uid string) string {
	return strings.NewReplacer(" ", "_", "/", ".").Replace(uid)
}

// listen makes each Pod's server listen on its declared ports and on those its slices name, except closed ones. Pods of
// podway itself have no such server: podway is in them.
func (w *kernelWorld) listen(st *State) error {
	for name, kp := range w.pods {
		p := st.Snapshot.Pods.At(name)
		if l := p.Labels[labelName]; l == nodeAgent || l == ingressProxy {
			continue
		}
		for port := range portsOf(st, p) {
			if kp.ports[port] {
				continue
			}
			if err := kp.server.Listen(kp.host, port); err != nil {
				return err
			}
			kp.ports[port] = true
		}
	}
	return nil
}

// ingress starts the ingress proxies in their Pods and brings all of them to the step.
func (w *kernelWorld) ingress(ctx context.Context, f *File, step int) error {
	var all []*kernelPod
	for name, kp := range w.pods {
		if p := f.Steps[step].State.Snapshot.Pods.At(name); p.Labels[labelName] == ingressProxy {
			all = append(all, kp)
		}
	}
	return each(all, func(kp *kernelPod) (err error) {
		if kp.ingress == nil {
			o := NodeOptions{Node: kp.node.name, Dir: kp.node.opts.Dir, Ingress: true}
			if kp.ingress, err = w.start(ctx, kp.host, o, f); err != nil {
				return err
			}
		}
		_, err = kp.ingress.call(request{Op: "apply", Step: step})
		return err
	})
}

func portsOf(st *State, p *model.Pod) map[nettest.Port]bool {
	out := map[nettest.Port]bool{}
	for _, c := range p.Ports {
		out[nettest.Port{Proto: strings.ToLower(string(c.Protocol)), Number: c.Port}] = true
	}
	for sl := range st.Snapshot.Slices.Values() {
		for i := range sl.Endpoints {
			e := &sl.Endpoints[i]
			if e.Pod != p.Name && (e.Pod.Name != "" || p.HostNetwork || !slices.Contains(p.Addrs, e.Addr)) {
				continue
			}
			for _, ep := range sl.Ports {
				if ep.Port != 0 {
					out[nettest.Port{Proto: strings.ToLower(string(ep.Protocol)), Number: ep.Port}] = true
				}
			}
		}
	}
	closed, loopback := st.Closed[p.Name], st.Loopback[p.Name]
	for port := range maps.Clone(out) {
		switch {
		case port.Proto == "sctp" || closed[int32(port.Number)]:
			delete(out, port)
		case loopback[int32(port.Number)]:
			delete(out, port)
			port.Loopback = true
			out[port] = true
		}
	}
	return out
}
