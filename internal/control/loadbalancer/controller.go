package loadbalancer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/podway/podway/internal/model"
)

const (
	workers    = 8
	retryFirst = 10 * time.Millisecond
	retryLast  = 30 * time.Second
	staleWait  = 50 * time.Millisecond // for the snapshot to catch up with a Service that was read
)

// Controller writes what Allocate decides. Set the fields, then Run it once.
type Controller struct {
	Client   kubernetes.Interface
	Dynamic  dynamic.Interface // for the status of AddressPools; nil = none is written
	Recorder record.EventRecorder
	Ranges   Ranges // where no address is given
	Log      *slog.Logger
	Metrics  *Metrics // may be nil

	queue workqueue.TypedRateLimitingInterface[model.Name]
	pools *poolWriter

	mu    sync.Mutex
	snap  *model.Snapshot
	wrote map[model.Name]written    // that the snapshot may not show yet
	plan  map[model.Name]Assignment // of the last snapshot
	told  map[model.Name]string     // what each Service's status says for sure
}

type written struct {
	version string // "" = the write is under way, or nobody knows how it ended
	addrs   []netip.Addr
	seeded  bool // by an earlier leader; the Service may not be in the snapshot yet
}

// seedAge is how long the snapshot may lack a Service that was there at the start.
const seedAge = 10 * time.Second

// Run follows the snapshots until ctx ends. The first one must be the complete view.
func (c *Controller) Run(ctx context.Context, in <-chan *model.Snapshot) error {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[model.Name](retryFirst, retryLast))
	c.wrote, c.plan, c.told = map[model.Name]written{}, map[model.Name]Assignment{}, map[model.Name]string{}
	c.pools = newPoolWriter(c.Dynamic, c.Recorder, c.Log)
	if err := c.seed(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.queue.ShutDown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Go(func() { c.pools.run(ctx) })
	late := time.After(seedAge)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-in:
			c.ingest(s)
		case <-late:
			c.unseed()
		}
	}
}

// unseed forgets what was at the start and is not in the snapshot now.
func (c *Controller) unseed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, w := range c.wrote {
		if w.seeded && c.snap != nil && c.snap.Services.At(n) == nil {
			delete(c.wrote, n)
		}
	}
	if c.snap != nil {
		c.replan()
	}
}

// seed reads what earlier leaders wrote last, which the watch may not have brought yet.
func (c *Controller) seed(ctx context.Context) error {
	for {
		list, err := c.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err != nil {
			c.Log.Warn("read Services before the first address is given", "err", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				continue
			}
		}
		for i := range list.Items {
			if s := &list.Items[i]; len(s.Status.LoadBalancer.Ingress) > 0 {
				c.wrote[model.N(s.Namespace, s.Name)] = written{s.ResourceVersion, addrsOf(s), true}
			}
		}
		return nil
	}
}

// ingest plans anew when the snapshot differs in something that matters, and queues the Services whose status differs.
func (c *Controller) ingest(s *model.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.snap
	c.snap = s
	if old != nil && !concerns(old, s, model.Diff(old, s)) {
		return
	}
	c.replan()
}

// replan decides anew and queues the Services whose status is not known to say so. Without any pool podway keeps out of
// the way of whoever else may serve the Services; those that name it by class are told. not are the Services that somebody
// is at work on already.
func (c *Controller) replan(not ...model.Name) {
	view := c.view()
	plan := map[model.Name]Assignment{}
	all, pools := c.Ranges.Allocate(view), c.Ranges.counts(view)
	c.Metrics.set(all, pools)
	for _, a := range all {
		if view.Pools.Len() == 0 && a.Service.LoadBalancerClass != model.LoadBalancerClass {
			continue
		}
		plan[a.Service.Name] = a
	}
	for n := range c.told {
		if _, ok := plan[n]; ok {
			continue
		}
		if svc := view.Services.At(n); svc != nil && !svc.Deleting { // not podway's any more: take the condition away
			a := Assignment{Service: svc, Release: true, Reason: ReasonReleased, Message: "podway does not serve the Service any more"}
			a.Addrs = had(a)
			plan[n] = a
		} else {
			delete(c.told, n)
		}
	}
	for n, a := range plan {
		if slices.Contains(not, n) {
			continue
		}
		if c.told[n] != a.words() || !slices.Equal(had(a), a.Addrs) { // or somebody took the addresses away again
			c.queue.Add(n)
		}
	}
	c.plan = plan
	c.pools.set(pools)
}

// view is the snapshot with own writes in it, those that are under way too: what a Service is about to have nobody else may
// get. Writes that have come back are forgotten.
func (c *Controller) view() *model.Snapshot {
	b := model.NewBuilder(c.snap)
	for n, w := range c.wrote {
		svc := c.snap.Services.At(n)
		if svc == nil {
			if w.seeded {
				b.Put(&model.Service{Name: n, Type: model.LoadBalancer, Deleting: true, LoadBalancerIPs: lbIPs(w.addrs)})
			} else {
				delete(c.wrote, n)
			}
			continue
		}
		if w.version != "" {
			if order, err := resourceversion.CompareResourceVersion(w.version, svc.ResourceVersion); err != nil || order <= 0 {
				delete(c.wrote, n)
				continue
			}
		}
		with := *svc
		with.LoadBalancerIPs = lbIPs(w.addrs)
		b.Put(&with)
	}
	return b.Snapshot(c.snap.Time)
}

func lbIPs(addrs []netip.Addr) (out []model.LoadBalancerIP) {
	for _, a := range addrs {
		out = append(out, model.LoadBalancerIP{Addr: a})
	}
	return out
}

// concerns reports whether a change can matter to Allocate.
func concerns(old, new *model.Snapshot, c model.Change) bool {
	if c.All || len(c.Pools) > 0 {
		return true
	}
	for _, n := range c.Nodes {
		a, b := old.Nodes.At(n), new.Nodes.At(n)
		if a == nil || b == nil || !slices.Equal(a.Addrs, b.Addrs) || !slices.Equal(a.PodCIDRs, b.PodCIDRs) {
			return true
		}
	}
	for _, n := range c.Services {
		a, b := old.Services.At(n), new.Services.At(n)
		if a != b && (matters(a) || matters(b)) {
			return true
		}
	}
	return false
}

func matters(s *model.Service) bool {
	return s != nil && (s.Type == model.LoadBalancer || len(s.LoadBalancerIPs)+len(s.ExternalIPs) > 0)
}

// words is what a Service's status says when the assignment is written.
func (a Assignment) words() string { return fmt.Sprint(a.Reason, a.Addrs, a.Message) }

func addrsOf(s *corev1.Service) (out []netip.Addr) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(in.IP); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}
