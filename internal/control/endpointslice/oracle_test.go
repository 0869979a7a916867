package endpointslice

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	kube "k8s.io/endpointslice"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	objects "github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control/controltest"
	"github.com/podway/podway/internal/model"
)

var (
	oracleCases = flag.Int("cases", 200, "how many random clusters the oracle test runs")
	oracleSeed  = flag.Uint64("seed", 1, "the first seed of the oracle test")
	oracleSteps = flag.Int("steps", 20, "how long each of them lives")
)

// Random clusters live through random events. After each, podway's Controller and k8s.io/endpointslice, the reconciler of
// kube-controller-manager, must have written the same endpoints, ports, labels and owners for every Service, however they
// are packed; and podway may not have needed more writes. In some, others edit podway's slices, or writes fail.
func TestTheSlicesAreThoseOfKubernetesWhateverHappens(t *testing.T) {
	var ours, theirs, hinted int
	for i := range *oracleCases {
		seed, size := *oracleSeed+uint64(i), 12
		if i%20 == 19 {
			size = 400 // more than one slice
		}
		synctest.Test(t, func(t *testing.T) {
			hard := i%10 == 8
			a, b := runOracle(t, seed, size, *oracleSteps, hard, &hinted)
			if !hard {
				ours, theirs = ours+a, theirs+b
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("writes of slices: podway %d, k8s.io/endpointslice %d; hints by proportion seen %d times", ours, theirs, hinted)
	if *oracleSteps >= 20 && hinted < *oracleCases/3 {
		t.Errorf("hints by proportion were seen only %d times", hinted)
	}
	if ours > theirs+theirs/50 { // podway writes at once what the library sees together
		t.Errorf("podway needed %d writes, the library %d", ours, theirs)
	}
}

func runOracle(t *testing.T, seed uint64, size, steps int, hard bool, hinted *int) (ourWrites, theirWrites int) {
	w := newWorld(seed, size)
	a, b := newOurs(t, w), newTheirs(w)
	defer func() { a.close() }()
	if hard {
		a.failSometimes(w)
	}
	did := []string{"start"}
	for step := range steps {
		all := w.take()
		for _, n := range all {
			if n.gone {
				a.feed.Delete(objects.Convert(n.object))
			} else {
				a.feed.Put(objects.Convert(n.object))
			}
		}
		settle(2 * time.Second)
		if hard {
			did = append(did, a.meddle(t, w))
			settle(2 * time.Minute) // a repair may wait for 30 s, and so may a write that failed
		}
		b.reconcile(t, all)
		// Services on their way out get no new slices: who has which of the old ones is the library's dice.
		if d := difference(linesOf(w, w.lasting(b.list(t))), linesOf(w, w.lasting(a.list(t)))); d != "" {
			t.Fatalf("seed %d step %d (%s): library -, podway +\n%s\nServices: %s", seed, step, strings.Join(did, ", "), d, text1(w.services))
		}
		a.packed(t)
		a.hinted += a.shared(t, w)
		if w.one(30) {
			a.close()
			a.start(t, w)
			settle(time.Second)
		}
		did = w.step()
		w.freeze(did)
	}
	*hinted += a.hinted
	return a.writes(), b.writes()
}

// ours is the Controller at work.
type ours struct {
	server *controltest.Server
	feed   *controltest.Feed
	stop   context.CancelFunc
	done   *sync.WaitGroup
	hinted int // Services, in all steps
}

func newOurs(t *testing.T, w *world) *ours {
	a := &ours{server: controltest.New()}
	a.start(t, w)
	return a
}

// start begins with what is there, as a new leader does.
func (a *ours) start(t *testing.T, w *world) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	a.feed, a.done, a.stop = controltest.NewFeed(), &sync.WaitGroup{}, stop
	if err := a.feed.Follow(ctx, a.server, a.done); err != nil {
		t.Fatal(err)
	}
	for _, s := range a.list(t) {
		a.feed.Put(objects.Convert(s))
	}
	for _, n := range w.nodes {
		a.feed.Put(objects.Convert(n))
	}
	for _, p := range w.pods {
		a.feed.Put(objects.Convert(p))
	}
	for _, s := range w.services {
		a.feed.Put(objects.Convert(s))
	}
	c := &Controller{Client: a.server, Recorder: record.NewFakeRecorder(10000)}
	a.done.Go(func() { _ = c.Run(ctx, a.feed.C) })
}

func (a *ours) close() {
	a.stop()
	a.done.Wait()
}

// failSometimes lets one write in five fail, each in its own way.
func (a *ours) failSometimes(w *world) {
	rnd := rand.New(rand.NewPCG(w.rnd.Uint64(), 3)) // the reactor runs on other goroutines
	var mu sync.Mutex
	fail := func(act clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if rnd.IntN(5) > 0 {
			return false, nil, nil
		}
		gr := act.GetResource().GroupResource()
		return true, nil, []error{apierrors.NewConflict(gr, "x", errors.New("another version")), apierrors.NewForbidden(gr, "x", errors.New("exceeded quota")),
			apierrors.NewInternalError(errors.New("etcd has no leader")), apierrors.NewTooManyRequestsError("later")}[rnd.IntN(4)]
	}
	for _, verb := range []string{"create", "update", "delete"} {
		a.server.PrependReactor(verb, "endpointslices", fail)
	}
}

// meddle is somebody else who edits or deletes one of podway's slices.
func (a *ours) meddle(t *testing.T, w *world) string {
	all := a.list(t)
	if len(all) == 0 || !w.one(3) {
		return ""
	}
	s := all[w.rnd.IntN(len(all))].DeepCopy()
	if svc := w.services[s.Namespace+"/"+s.Labels[labelServiceName]]; svc == nil || svc.Spec.Selector == nil {
		return "" // nobody looks after these
	}
	gvr := discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	what := oneOf(w, "empty", "relabel", "reorder", "double", "delete")
	switch what {
	case "delete":
		if err := a.server.Tracker().Delete(gvr, s.Namespace, s.Name); err != nil {
			t.Fatal(err)
		}
		return "somebody deletes " + s.Name
	case "empty":
		s.Endpoints, s.Ports = s.Endpoints[:0], s.Ports[:0]
	case "relabel":
		s.Labels["by"] = "somebody"
	case "reorder":
		slices.Reverse(s.Endpoints)
	case "double":
		s.Endpoints = append(s.Endpoints, s.Endpoints...)
	}
	s.ResourceVersion = fmt.Sprint(1 << 40)
	if err := a.server.Tracker().Update(gvr, s, s.Namespace); err != nil {
		t.Fatal(err)
	}
	return what + " " + s.Name
}

// list is all slices but mirrored ones, of which the library knows nothing.
func (a *ours) list(t *testing.T) []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(listSlices(t, a.server), func(s *discoveryv1.EndpointSlice) bool { return s.Labels[labelManagedBy] != ManagedBy })
}

func (a *ours) writes() int { return writesOf(a.server) }

// packed checks that no slice is too large, and none empty without need.
func (a *ours) packed(t *testing.T) {
	t.Helper()
	n, empty := map[string]int{}, map[string]int{}
	for _, s := range a.list(t) {
		key := s.Namespace + "/" + s.Labels[labelServiceName] + " " + string(s.AddressType)
		n[key]++
		if len(s.Endpoints) == 0 {
			empty[key]++
		}
		if len(s.Endpoints) > MaxEndpoints {
			t.Errorf("%s has %d endpoints", s.Name, len(s.Endpoints))
		}
	}
	for key, e := range empty {
		if e > 1 || n[key] > 1 {
			t.Errorf("%s: %d of %d slices are empty", key, e, n[key])
		}
	}
}

func listSlices(t *testing.T, s *controltest.Server) (out []*discoveryv1.EndpointSlice) {
	t.Helper()
	list, err := s.DiscoveryV1().EndpointSlices("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func writesOf(s *controltest.Server) int {
	const r = "endpointslices"
	return s.Writes("create", r) + s.Writes("update", r) + s.Writes("delete", r)
}

// theirs is the library as kube-controller-manager runs it, for every Service after every step.
type theirs struct {
	w       *world
	server  *controltest.Server
	nodes   cache.Indexer
	rec     *kube.Reconciler
	zones   *topologycache.TopologyCache
	mirrors int
}

func newTheirs(w *world) *theirs {
	b := &theirs{w: w, server: controltest.New(), nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), zones: topologycache.NewTopologyCache()}
	b.rec = kube.NewReconciler(b.server, corelisters.NewNodeLister(b.nodes), MaxEndpoints, util.NewEndpointSliceTracker(), b.zones,
		record.NewFakeRecorder(10000), ManagedBy, kube.WithPreferSameTrafficDistributionEnabled(true))
	return b
}

func (b *theirs) list(t *testing.T) []*discoveryv1.EndpointSlice { return listSlices(t, b.server) }
func (b *theirs) writes() int                                    { return writesOf(b.server) }

func (b *theirs) reconcile(t *testing.T, all []news) {
	for _, n := range all {
		if _, ok := n.object.(*corev1.Node); ok && n.gone {
			_ = b.nodes.Delete(n.object)
		} else if ok {
			_ = b.nodes.Add(n.object)
		}
	}
	b.collect(t)
	log := klog.New(nil)
	var known []*corev1.Node
	for _, n := range b.w.nodes {
		known = append(known, n.DeepCopy()) // the library adds the CPU up in place
	}
	b.zones.SetNodes(log, known)
	for _, svc := range b.w.services {
		if svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.Selector == nil {
			continue
		}
		var pods []*corev1.Pod
		for _, p := range b.w.pods {
			if p.Namespace == svc.Namespace && labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(p.Labels)) {
				pods = append(pods, p)
			}
		}
		existing := slices.DeleteFunc(b.list(t), func(s *discoveryv1.EndpointSlice) bool {
			return s.Namespace != svc.Namespace || s.Labels[labelServiceName] != svc.Name
		})
		if err := b.rec.Reconcile(log, svc, pods, existing, time.Time{}); err != nil && !strings.Contains(err.Error(), "skipping Pod") {
			t.Fatal(err)
		}
	}
}

// collect is what the garbage collector does with slices whose Service is gone, and podway itself with those of an
// ExternalName Service.
func (b *theirs) collect(t *testing.T) {
	for _, s := range b.list(t) {
		svc := b.w.services[s.Namespace+"/"+s.Labels[labelServiceName]]
		if svc == nil || svc.Spec.Type == corev1.ServiceTypeExternalName || svc.UID != s.OwnerReferences[0].UID {
			if err := b.server.DiscoveryV1().EndpointSlices(s.Namespace).Delete(context.Background(), s.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// freeze marks the Services that lose their selector in a step together with something else: what their slices had last,
// which stays, depends on which of the two was seen first.
func (w *world) freeze(did []string) {
	for _, d := range did {
		key, ok := strings.CutPrefix(d, "edit no selector of Service ")
		if svc := w.services[key]; ok && svc != nil && len(did) > 1 {
			w.frozen[svc.UID] = true
		}
	}
}

// lasting leaves out the slices of Services on their way out, and those that are frozen.
func (w *world) lasting(list []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(list, func(s *discoveryv1.EndpointSlice) bool {
		svc := w.services[s.Namespace+"/"+s.Labels[labelServiceName]]
		return svc != nil && (svc.DeletionTimestamp != nil || svc.Spec.Selector == nil && w.frozen[svc.UID])
	})
}

func (w *world) proportional(s *discoveryv1.EndpointSlice) bool {
	svc := w.services[s.Namespace+"/"+s.Labels[labelServiceName]]
	return svc != nil && proportional(objects.Convert(svc).(*model.Service))
}

// shared checks that hints by proportion give no zone much less than its share of CPU.
func (a *ours) shared(t *testing.T, w *world) (services int) {
	t.Helper()
	var all Nodes
	for _, n := range w.nodes {
		all = all.Set(n.Name, objects.Convert(n).(*model.Node))
	}
	count := map[string]map[string]int{}
	for _, s := range w.lasting(a.list(t)) {
		key := s.Namespace + "/" + s.Labels[labelServiceName] + " " + string(s.AddressType)
		for _, e := range s.Endpoints {
			if !w.proportional(s) || e.Hints == nil {
				continue
			}
			if count[key] == nil {
				count[key] = map[string]int{}
			}
			count[key][e.Hints.ForZones[0].Name]++
		}
	}
	z := zonesOf(all)
	for key, c := range count {
		n := 0
		for _, zone := range c {
			n += zone
		}
		for zone, cpu := range z.cpu {
			if c[zone]*12*int(z.total) < n*10*int(cpu) {
				t.Errorf("%s: zone %s with %d of %d CPU gets %v", key, zone, cpu, z.total, c)
			}
		}
	}
	return len(count)
}

// linesOf is what the slices say, a line for each endpoint, without where it stands, and one for a Service that has none.
// (The library leaves an empty slice beside others when a Pod has neither an address of the family nor a port.) Of hints by
// proportion it says only whether they are there.
func linesOf(w *world, list []*discoveryv1.EndpointSlice) (out []string) {
	filled := map[string]bool{}
	of := func(s *discoveryv1.EndpointSlice) string {
		return s.Namespace + "/" + s.Labels[labelServiceName] + string(s.AddressType)
	}
	for _, s := range list {
		filled[of(s)] = filled[of(s)] || len(s.Endpoints) > 0
	}
	for _, s := range list {
		ports := slices.Clone(s.Ports)
		slices.SortFunc(ports, func(a, b discoveryv1.EndpointPort) int { return strings.Compare(text1(a), text1(b)) })
		head := fmt.Sprintf("%s/%s %s %s labels %s owner %s", s.Namespace, s.Labels[labelServiceName], s.AddressType, text1(ports), text1(s.Labels), text1(s.OwnerReferences))
		if !filled[of(s)] {
			out = append(out, head+" empty")
		}
		for _, e := range s.Endpoints {
			if w.proportional(s) && e.Hints != nil {
				e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "by proportion"}}}
			}
			out = append(out, head+" "+text1(e))
		}
	}
	slices.Sort(out)
	return out
}

// difference lists the lines that only one of the two sorted lists has.
func difference(a, b []string) string {
	var out strings.Builder
	for len(a)+len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			fmt.Fprintln(&out, "-", a[0])
			a = a[1:]
		case len(a) == 0 || b[0] < a[0]:
			fmt.Fprintln(&out, "+", b[0])
			b = b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return out.String()
}

func text1(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
