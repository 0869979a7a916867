package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// workloadKinds maps the spellings of kubectl to the kinds of model.Workload.
var workloadKinds = map[string]string{
	"deploy": "Deployment", "deployment": "Deployment", "deployments": "Deployment",
	"sts": "StatefulSet", "statefulset": "StatefulSet", "statefulsets": "StatefulSet",
	"ds": "DaemonSet", "daemonset": "DaemonSet", "daemonsets": "DaemonSet",
}

// SetSender fills in who sends: s is a form of ParseSender, "deploy/NAME" and its kin, or "" for anybody. note says what
// was chosen when the user left a choice.
func (x *Index) SetSender(q *Question, s string) (note string, err error) {
	if s == "" {
		return x.anySender(q)
	}
	if ok, err := q.ParseSender(s); ok || err != nil {
		return "", err
	}
	kind, name, _ := strings.Cut(s, "/")
	w := workloadKinds[strings.ToLower(kind)]
	if w == "" {
		return "", fmt.Errorf("sender %q is none of pod/NAME, deploy/NAME, sts/NAME, ds/NAME, node/NAME, outside[=ADDR]", s)
	}
	ns, name, _ := strings.Cut(q.qualify(name), "/")
	load := x.s.Workloads.At(model.N(ns, w+"/"+name))
	if load == nil {
		return "", fmt.Errorf("there is no %s %s in namespace %s", w, name, ns)
	}
	p := x.bestPod(ns, func(p *model.Pod) bool { return model.Selects(load.Labels, p.Labels) })
	if p == nil {
		return "", fmt.Errorf("%s %s in namespace %s has no Pod with an address", w, name, ns)
	}
	q.From, q.Sender = flow.FromPod, p.Name.String()
	return "", nil
}

// anySender takes a ready Pod of the namespace, else a node.
func (x *Index) anySender(q *Question) (string, error) {
	if p := x.bestPod(q.namespace(), func(p *model.Pod) bool { return p.Ready && !p.HostNetwork }); p != nil {
		q.From, q.Sender = flow.FromPod, p.Name.String()
		return "no --from: a ready Pod of namespace " + p.Name.Namespace + " was taken", nil
	}
	if n := x.readyNode(); n != nil {
		q.From, q.Sender, q.Node = flow.FromNode, n.Name, n.Name
		return "no --from, and no ready Pod in namespace " + q.namespace() + ": a node was taken", nil
	}
	return "", fmt.Errorf("there is neither a Pod in namespace %s nor a node to send from: give --from", q.namespace())
}

// bestPod is the first Pod by name that passes, ready ones before others.
func (x *Index) bestPod(ns string, pass func(*model.Pod) bool) *model.Pod {
	var all []*model.Pod
	for p := range x.s.Pods.Values() {
		if p.Name.Namespace == ns && !p.Terminal() && len(p.Addrs) > 0 && pass(p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *model.Pod) int {
		return cmp.Or(boolCompare(!a.Ready, !b.Ready), strings.Compare(a.Name.Name, b.Name.Name))
	})
}
