package endpointslice

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// world is a small cluster of API objects that changes at random, the same way for the same seed.
type world struct {
	rnd      *rand.Rand
	pods     map[string]*corev1.Pod // by namespace/name, as all
	services map[string]*corev1.Service
	nodes    map[string]*corev1.Node
	uid      int
	size     int  // of Pods in a namespace
	complete bool // all Nodes have a zone and CPU, and all Pods a Node
	frozen   map[types.UID]bool

	news []news // since the last call of take
}

// news is what a watch brings.
type news struct {
	object metav1.Object
	gone   bool
}

func newWorld(seed uint64, size int) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 85353)), pods: map[string]*corev1.Pod{}, services: map[string]*corev1.Service{},
		nodes: map[string]*corev1.Node{}, frozen: map[types.UID]bool{}, size: size, complete: seed%3 == 0}
	if w.complete && size < 100 {
		w.size *= 3
	}
	for i := range 4 {
		w.putNode(fmt.Sprintf("node-%d", i))
	}
	for range 3 {
		w.addService()
	}
	for range w.size / 2 {
		w.addPod()
	}
	return w
}

// take returns what happened since the last call, in order.
func (w *world) take() []news {
	defer func() { w.news = nil }()
	return w.news
}

// step lets a few things happen and says what.
func (w *world) step() (did []string) {
	for range 1 + w.rnd.IntN(3) {
		i := w.rnd.IntN(len(happenings))
		if what := happenings[i](w); what != "" {
			did = append(did, what)
		}
	}
	return did
}

// happenings are all that may happen; those that stand there twice are twice as likely.
var happenings = []func(*world) string{
	(*world).addPod, (*world).addPod, (*world).flip, (*world).flip, (*world).flip, (*world).terminate, (*world).removePod, (*world).removePod,
	(*world).endPod, (*world).movePod, (*world).relabelPod, (*world).renameHost, (*world).replacePod, (*world).unschedule,
	(*world).addService, (*world).editService, (*world).editService, (*world).removeService, (*world).recreateService,
	(*world).terminateService, (*world).changeNode, (*world).removeNode,
}

// pick is a random key, "" when there is none.
func pick[V any](w *world, m map[string]V) string {
	keys := slices.Sorted(maps.Keys(m))
	if len(keys) == 0 {
		return ""
	}
	return keys[w.rnd.IntN(len(keys))]
}

func (w *world) one(in int) bool { return w.rnd.IntN(in) == 0 }

func oneOf[T any](w *world, of ...T) T { return of[w.rnd.IntN(len(of))] }

func (w *world) meta(ns, name string) metav1.ObjectMeta {
	w.uid++
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(fmt.Sprintf("uid-%d", w.uid)),
		ResourceVersion: fmt.Sprint(w.uid), CreationTimestamp: w.time()}
}

func (w *world) time() metav1.Time {
	return metav1.Time{Time: time.Date(2026, 7, 1, 12, 0, w.uid, 0, time.UTC)}
}

// put notes a new state of an object, with a new version.
func (w *world) put(o metav1.Object) {
	w.uid++
	o.SetResourceVersion(fmt.Sprint(w.uid))
	key := o.GetNamespace() + "/" + o.GetName()
	switch o := o.(type) {
	case *corev1.Pod:
		w.pods[key] = o
	case *corev1.Service:
		w.services[key] = o
	case *corev1.Node:
		w.nodes[o.Name] = o
	}
	w.news = append(w.news, news{object: o})
}

func (w *world) addPod() string {
	ns := oneOf(w, "shop", "shop", "shop", "other")
	key := fmt.Sprintf("pod-%d", w.rnd.IntN(w.size))
	if w.pods[ns+"/"+key] != nil {
		return ""
	}
	p := &corev1.Pod{ObjectMeta: w.meta(ns, key)}
	p.Labels = w.podLabels()
	p.Spec.NodeName = oneOf(w, "node-0", "node-1", "node-2", "node-3", "node-3", "ghost")
	if w.complete {
		p.Spec.NodeName = oneOf(w, "node-0", "node-1", "node-2", "node-3")
	} else if w.one(12) {
		p.Spec.NodeName = ""
	}
	web, admin := oneOf[int32](w, 8080, 8080, 8081), oneOf[int32](w, 9000, 9001)
	main := corev1.Container{Name: "main", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: web, Protocol: corev1.ProtocolTCP}}}
	if !w.one(4) {
		main.Ports = append(main.Ports, corev1.ContainerPort{Name: "admin", ContainerPort: admin, Protocol: oneOf(w, corev1.ProtocolTCP, corev1.ProtocolUDP)})
	}
	p.Spec.Containers = []corev1.Container{main}
	if w.one(3) {
		always := corev1.ContainerRestartPolicyAlways
		side := corev1.Container{Name: "side", Ports: []corev1.ContainerPort{{Name: oneOf(w, "web", "admin", "side"), ContainerPort: 7000, Protocol: corev1.ProtocolTCP}}}
		if w.one(2) {
			side.RestartPolicy = &always
		}
		p.Spec.InitContainers = []corev1.Container{side}
	}
	w.host(p)
	p.Status.Phase = oneOf(w, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodUnknown)
	w.address(p)
	w.ready(p, oneOf(w, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown))
	if w.one(15) {
		p.Status.Conditions = nil
	}
	w.put(p)
	return "add Pod " + ns + "/" + key
}

func (w *world) podLabels() map[string]string {
	l := map[string]string{"app": oneOf(w, "a", "a", "b")}
	if w.one(2) {
		l["tier"] = oneOf(w, "x", "y")
	}
	return l
}

func (w *world) host(p *corev1.Pod) {
	p.Spec.Hostname, p.Spec.Subdomain = "", ""
	if w.one(3) {
		p.Spec.Hostname, p.Spec.Subdomain = p.Name, oneOf(w, "svc-0", "svc-1", "none", "")
	}
}

func (w *world) address(p *corev1.Pod) {
	w.uid++
	v4, v6 := corev1.PodIP{IP: fmt.Sprintf("10.%d.%d.%d", 1+w.uid>>16, w.uid>>8&255, w.uid&255)}, corev1.PodIP{IP: fmt.Sprintf("fd00::%x", w.uid)}
	p.Status.PodIPs = oneOf(w, []corev1.PodIP{v4}, []corev1.PodIP{v4, v6}, []corev1.PodIP{v6, v4}, []corev1.PodIP{v6}, []corev1.PodIP{v4}, nil)
	p.Status.PodIP = ""
	if len(p.Status.PodIPs) > 0 {
		p.Status.PodIP = p.Status.PodIPs[0].IP
	}
}

func (w *world) ready(p *corev1.Pod, is corev1.ConditionStatus) {
	w.uid++
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: is, LastTransitionTime: w.time()}}
}

// edit changes a copy of a random Pod.
func (w *world) edit(what string, f func(*corev1.Pod)) string {
	key := pick(w, w.pods)
	if key == "" {
		return ""
	}
	p := w.pods[key].DeepCopy()
	f(p)
	w.put(p)
	return what + " Pod " + key
}

func (w *world) flip() string {
	return w.edit("flip", func(p *corev1.Pod) {
		if len(p.Status.Conditions) > 0 && p.Status.Conditions[1].Status == corev1.ConditionTrue {
			w.ready(p, corev1.ConditionFalse)
		} else {
			w.ready(p, corev1.ConditionTrue)
		}
	})
}

func (w *world) terminate() string {
	return w.edit("terminate", func(p *corev1.Pod) { p.DeletionTimestamp = new(w.time()) })
}

func (w *world) endPod() string {
	return w.edit("end", func(p *corev1.Pod) { p.Status.Phase = oneOf(w, corev1.PodSucceeded, corev1.PodFailed) })
}

func (w *world) movePod() string { return w.edit("readdress", w.address) }

func (w *world) relabelPod() string {
	return w.edit("relabel", func(p *corev1.Pod) { p.Labels = w.podLabels() })
}

func (w *world) renameHost() string { return w.edit("rename host of", w.host) }

func (w *world) unschedule() string {
	return w.edit("move to another node", func(p *corev1.Pod) { p.Spec.NodeName = oneOf(w, "node-0", "node-1", "ghost") })
}

func (w *world) removePod() string {
	key := pick(w, w.pods)
	if key == "" {
		return ""
	}
	w.news = append(w.news, news{w.pods[key], true})
	delete(w.pods, key)
	return "delete Pod " + key
}

// replacePod is a StatefulSet's Pod that comes back under its name within one step.
func (w *world) replacePod() string {
	return w.edit("replace", func(p *corev1.Pod) {
		p.ObjectMeta.UID, p.DeletionTimestamp = w.meta("", "").UID, nil
		w.address(p)
		w.ready(p, corev1.ConditionTrue)
	})
}

func (w *world) addService() string {
	ns, name := oneOf(w, "shop", "shop", "other"), fmt.Sprintf("svc-%d", w.rnd.IntN(5))
	if w.services[ns+"/"+name] != nil {
		return ""
	}
	s := &corev1.Service{ObjectMeta: w.meta(ns, name)}
	s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeClusterIP, fmt.Sprintf("10.96.%d.%d", w.uid>>8&255, w.uid&255)
	if w.one(3) {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	s.Spec.IPFamilies = oneOf(w, []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv4Protocol},
		[]corev1.IPFamily{corev1.IPv6Protocol}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol})
	s.Spec.Selector = oneOf(w, map[string]string{"app": "a"}, map[string]string{"app": "a"}, map[string]string{"app": "b"}, map[string]string{"app": "a", "tier": "x"})
	w.ports(s)
	s.Spec.PublishNotReadyAddresses = w.one(5)
	w.distribution(s)
	w.topology(s)
	w.put(s)
	return "add Service " + ns + "/" + name
}

func (w *world) ports(s *corev1.Service) {
	s.Spec.Ports = nil
	n := 1 + w.rnd.IntN(3)
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		n = w.rnd.IntN(3)
	}
	for i := range n {
		p := corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Protocol: oneOf(w, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP), Port: int32(80 + i),
			TargetPort: oneOf(w, intstr.FromInt32(8080), intstr.FromInt32(5300+int32(i)), intstr.FromString("web"), intstr.FromString("admin"), intstr.FromString("side"))}
		if w.one(4) {
			p.AppProtocol = new(oneOf(w, "http", "kubernetes.io/h2c"))
		}
		s.Spec.Ports = append(s.Spec.Ports, p)
	}
}

func (w *world) distribution(s *corev1.Service) {
	s.Spec.TrafficDistribution = nil
	if v := oneOf(w, "", "", corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
		corev1.ServiceTrafficDistributionPreferSameNode); v != "" {
		s.Spec.TrafficDistribution = &v
	}
}

func (w *world) topology(s *corev1.Service) {
	s.Annotations = oneOf(w, nil, nil, nil, map[string]string{corev1.AnnotationTopologyMode: "Auto"}, map[string]string{corev1.AnnotationTopologyMode: "auto"},
		map[string]string{corev1.AnnotationTopologyMode: "Disabled"}, map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "Auto"},
		map[string]string{corev1.AnnotationTopologyMode: "Auto", corev1.DeprecatedAnnotationTopologyAwareHints: "Disabled"})
}

func (w *world) editService() string {
	key := pick(w, w.services)
	if key == "" {
		return ""
	}
	s := w.services[key].DeepCopy()
	edits := map[string]func(){
		"selector": func() {
			s.Spec.Selector = oneOf(w, map[string]string{"app": "b"}, map[string]string{"tier": "y"}, map[string]string{"app": "a"})
		},
		"publish":      func() { s.Spec.PublishNotReadyAddresses = !s.Spec.PublishNotReadyAddresses },
		"distribution": func() { w.distribution(s) },
		"topology":     func() { w.topology(s) },
		"ports":        func() { w.ports(s) },
		"labels": func() {
			s.Labels = oneOf(w, nil, map[string]string{"team": "red"}, map[string]string{"team": "blue", "x": "y"},
				map[string]string{labelServiceName: "wrong", labelManagedBy: "me", labelHeadless: "no", "team": "red"})
		},
		"no selector": func() { s.Spec.Selector = nil },
		"ExternalName": func() {
			s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "x.example", "", nil
		},
		"families": func() {
			s.Spec.IPFamilies = oneOf(w, []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
		},
	}
	what := pick(w, edits)
	if (what == "no selector" || what == "ExternalName") && !w.one(3) {
		what = "labels"
	}
	edits[what]()
	w.put(s)
	return "edit " + what + " of Service " + key
}

func (w *world) removeService() string {
	key := pick(w, w.services)
	if key == "" || len(w.services) < 3 {
		return ""
	}
	w.news = append(w.news, news{w.services[key], true})
	delete(w.services, key)
	return "delete Service " + key
}

// recreateService is a Service that goes and comes back before anybody looks.
func (w *world) recreateService() string {
	key := pick(w, w.services)
	if key == "" {
		return ""
	}
	s := w.services[key].DeepCopy()
	m := w.meta(s.Namespace, s.Name)
	m.Labels = s.Labels
	s.ObjectMeta = m
	w.put(s)
	return "re-create Service " + key
}

func (w *world) terminateService() string {
	key := pick(w, w.services)
	if key == "" || !w.one(4) {
		return ""
	}
	s := w.services[key].DeepCopy()
	s.DeletionTimestamp, s.Finalizers = new(w.time()), []string{"service.kubernetes.io/load-balancer-cleanup"}
	w.put(s)
	return "begin to delete Service " + key
}

func (w *world) changeNode() string {
	name := oneOf(w, "node-0", "node-1", "node-2", "node-3")
	w.putNode(name)
	return "change Node " + name
}

func (w *world) putNode(name string) {
	n := &corev1.Node{ObjectMeta: w.meta("", name)}
	if zone := oneOf(w, "zone-a", "zone-a", "zone-a", "zone-b", "zone-b", "zone-c", ""); zone != "" || w.complete {
		if zone == "" {
			zone = "zone-b"
		}
		n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		if w.one(8) {
			n.Labels["node-role.kubernetes.io/control-plane"] = ""
		}
	}
	if w.complete || !w.one(12) {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: oneOf(w, resource.MustParse("4"), resource.MustParse("3800m"), resource.MustParse("16"))}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: oneOf(w, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)}}
	w.put(n)
}

// removeNode keeps one: an empty list of Nodes is not believed.
func (w *world) removeNode() string {
	name := pick(w, w.nodes)
	if len(w.nodes) < 2 || !w.one(3) {
		return ""
	}
	w.news = append(w.news, news{w.nodes[name], true})
	delete(w.nodes, name)
	return "delete Node " + name
}
