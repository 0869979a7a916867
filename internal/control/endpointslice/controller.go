package endpointslice

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/podway/podway/internal/model"
)

const (
	defaultQPS     = 500
	defaultBurst   = 1000
	defaultWorkers = 16
	defaultWindow  = 5 * time.Millisecond
	retryFirst     = 5 * time.Millisecond
	retryLast      = 30 * time.Second

	endpointsPause = 30 * time.Millisecond // Endpoints are one large object; changes of this long are one write
	orphanAge      = 5 * time.Second       // how long the Service of a slice may be unseen after a start
	echoAge        = 10 * time.Second      // a write that has not come back by then is looked up
)

// Controller writes EndpointSlices and Endpoints. Set the fields, then Run it once.
type Controller struct {
	Client   kubernetes.Interface
	Recorder record.EventRecorder
	Log      *slog.Logger
	Metrics  *Metrics // may be nil

	// KubernetesNames writes the managed-by labels of kube-controller-manager's controllers, which must be off; it implies Adopt.
	KubernetesNames bool
	Adopt           bool          // take over the slices and Endpoints of kube-controller-manager's controllers, which must be off
	NoEndpoints     bool          // write no v1 Endpoints
	QPS             float32       // writes a second in the long run; 0 = 500
	Burst           int           // 0 = 1000
	Workers         int           // Services written at the same time; 0 = 16
	Window          time.Duration // least time between two writes of one Service; 0 = 5 ms

	limit     flowcontrol.RateLimiter
	queue     workqueue.TypedRateLimitingInterface[model.Name]
	endpoints *endpointsWriter

	mu       sync.Mutex
	snap     *model.Snapshot
	index    *index
	cpu      zones // of cpuOf
	cpuOf    Nodes
	services map[model.Name]*state
}

// state is what the Controller knows of one Service beyond the snapshot.
type state struct {
	dirt       *dirt
	overlay    overlay
	shelves    Shelves
	last       time.Time // start of the last sync
	gone       bool      // seen to vanish
	missing    time.Time // since when slices are there without a Service
	fight      fight
	hints      map[string]string // of each family with hints by proportion, as last told
	failing    string            // kind of the failure that the user was told of, until a write succeeds
	unmirrored Unmirrored        // as last told
	writing    bool              // a sync writes now; what comes in may be the echo of a write whose answer is still on its way
	recheck    bool              // something came in meanwhile
}

// dirt is what changed since the last sync. pods is nil when everything must be looked at.
type dirt struct {
	pods    map[string]struct{}
	trigger time.Time // oldest of the changes that caused it, for the annotation; zero = unknown
}

// Run follows the snapshots until ctx ends. The first one must be the complete view.
func (c *Controller) Run(ctx context.Context, in <-chan *model.Snapshot) error {
	c.start()
	defer c.queue.ShutDown()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.endpoints.start(ctx, &wg); err != nil {
		return err
	}
	for range c.Workers {
		wg.Go(func() { c.work(ctx) })
	}
	tick := time.NewTicker(echoAge / 2)
	defer tick.Stop()
	wg.Go(func() {
		<-ctx.Done()
		c.queue.ShutDown()
	})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-in:
			c.ingest(s)
		case <-tick.C:
			c.lookUpLost(ctx)
		}
	}
}

func (c *Controller) start() {
	orDefault(&c.QPS, defaultQPS)
	orDefault(&c.Burst, defaultBurst)
	orDefault(&c.Workers, defaultWorkers)
	orDefault(&c.Window, defaultWindow)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.limit = flowcontrol.NewTokenBucketRateLimiter(c.QPS, c.Burst)
	c.queue = newQueue()
	c.index, c.services = newIndex(), map[model.Name]*state{}
	c.endpoints = newEndpointsWriter(c)
}

func newQueue() workqueue.TypedRateLimitingInterface[model.Name] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[model.Name](retryFirst, retryLast))
}

func orDefault[T comparable](p *T, d T) {
	var zero T
	if *p == zero {
		*p = d
	}
}

// state returns the Service's entry, making it when there is none.
func (c *Controller) state(n model.Name) *state {
	s := c.services[n]
	if s == nil {
		s = &state{overlay: overlay{}, shelves: Shelves{}}
		c.services[n] = s
	}
	return s
}

// soil notes that the Service must be looked at: only for the Pod named, or, with pod "", altogether.
func (c *Controller) soil(n model.Name, pod string, trigger time.Time) {
	s := c.state(n)
	if s.dirt == nil {
		s.dirt = &dirt{pods: map[string]struct{}{}}
	}
	if pod == "" {
		s.dirt.pods = nil
	} else if s.dirt.pods != nil {
		s.dirt.pods[pod] = struct{}{}
	}
	if !trigger.IsZero() && (s.dirt.trigger.IsZero() || trigger.Before(s.dirt.trigger)) {
		s.dirt.trigger = trigger
	}
	if wait := c.Window - time.Since(s.last); wait > 0 {
		c.queue.AddAfter(n, wait)
	} else {
		c.queue.Add(n)
	}
}

// again has everything about the Service looked at once more, after a while.
func (c *Controller) again(n model.Name, wait time.Duration) {
	s := c.state(n)
	if s.dirt == nil {
		s.dirt = &dirt{}
	}
	s.dirt.pods = nil
	c.queue.AddAfter(n, wait)
}
