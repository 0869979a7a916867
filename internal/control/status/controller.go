package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/podway/podway/internal/model"
)

const (
	workers    = 4
	retryFirst = 50 * time.Millisecond
	retryLast  = 30 * time.Second
)

// Controller writes what Desired says. Set the fields, then Run it once.
type Controller struct {
	Config Config
	Client kubernetes.Interface
	Log    *slog.Logger

	queue workqueue.TypedRateLimitingInterface[model.Name]

	mu    sync.Mutex
	snap  *model.Snapshot
	want  map[model.Name][]string
	wrote map[model.Name]string // versions that the snapshot may not show yet
}

// Run follows the snapshots until ctx ends. The first one must be the complete view.
func (c *Controller) Run(ctx context.Context, in <-chan *model.Snapshot) error {
	if c.Config == (Config{}) {
		c.Config = DefaultConfig
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[model.Name](retryFirst, retryLast))
	c.wrote = map[model.Name]string{}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.queue.ShutDown()
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-in:
			c.ingest(s)
		}
	}
}

func (c *Controller) ingest(s *model.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.snap
	c.snap = s
	if old != nil && !c.concerns(old, s) {
		return
	}
	c.want = Desired(s, c.Config)
	for n, version := range c.wrote {
		if ing := s.Ingresses.At(n); ing == nil || !newer(version, ing.ResourceVersion) {
			delete(c.wrote, n)
		}
	}
	for n := range c.want {
		if _, pending := c.wrote[n]; !pending {
			c.queue.Add(n)
		}
	}
}

func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// concerns reports whether a change can matter.
func (c *Controller) concerns(old, new *model.Snapshot) bool {
	ch := model.Diff(old, new)
	return ch.All || len(ch.Ingresses)+len(ch.Classes) > 0 || slices.Contains(ch.Services, c.Config.Service) ||
		len(ch.Nodes) > 0 && !slices.Equal(Addresses(old, c.Config.Service), Addresses(new, c.Config.Service))
}

func (c *Controller) work(ctx context.Context) {
	for {
		n, stop := c.queue.Get()
		if stop {
			return
		}
		if err := c.sync(ctx, n); err == nil || ctx.Err() != nil {
			c.queue.Forget(n)
		} else {
			c.Log.Warn("ingress status not written", "ingress", n.String(), "err", err)
			c.queue.AddRateLimited(n)
		}
		c.queue.Done(n)
	}
}

// sync writes one status as a whole. No version is needed: the list of addresses depends on nothing that is in it.
func (c *Controller) sync(ctx context.Context, n model.Name) error {
	c.mu.Lock()
	addrs, ok := c.want[n]
	_, pending := c.wrote[n]
	c.mu.Unlock()
	if !ok || pending {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": networkingv1.IngressStatus{
		LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: encode(addrs)}}})
	if err != nil {
		return fmt.Errorf("status: encode: %w", err)
	}
	live, err := c.Client.NetworkingV1().Ingresses(n.Namespace).Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("status: write Ingress %s: %w", n, err)
	}
	c.mu.Lock()
	c.wrote[n] = live.ResourceVersion
	c.mu.Unlock()
	c.Log.Info("ingress status", "ingress", n.String(), "addrs", addrs)
	return nil
}

func encode(addrs []string) (out []networkingv1.IngressLoadBalancerIngress) {
	for _, a := range addrs {
		if _, err := netip.ParseAddr(a); err == nil {
			out = append(out, networkingv1.IngressLoadBalancerIngress{IP: a})
		} else {
			out = append(out, networkingv1.IngressLoadBalancerIngress{Hostname: a})
		}
	}
	return out
}
