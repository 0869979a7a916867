package loadbalancer

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/record"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// poolPause gathers the changes of many Services into one status of a pool.
const poolPause = 500 * time.Millisecond

// poolRetry is how long a status that could not be written waits, unless it changes before.
const poolRetry = 10 * time.Second

var poolResource = schema.GroupVersionResource{Group: "podway.io", Version: "v1alpha1", Resource: "addresspools"}

// poolStatus is status of an AddressPool.
type poolStatus struct {
	Total     int64  `json:"total"`     // addresses; at most the largest int64
	Assigned  int64  `json:"assigned"`  // that a Service has
	Available int64  `json:"available"` // that nobody has
	Problem   string `json:"problem"`   // why the pool, or some address of it, cannot be used; "" = fine
}

// counts is the status of each pool. An address in two pools counts in both.
func (r Ranges) counts(s *model.Snapshot) map[string]poolStatus {
	out := map[string]poolStatus{}
	held := map[netip.Addr]bool{}
	for svc := range s.Services.Values() {
		for _, ip := range svc.LoadBalancerIPs {
			held[ip.Addr] = true
		}
	}
	for p := range s.Pools.Values() {
		st := poolStatus{Total: size(p), Problem: p.Conflict(s, r.Pods, r.Services)}
		for a := range held {
			if contains(p, a) {
				st.Assigned++
			}
		}
		st.Available = st.Total - st.Assigned
		out[p.Name] = st
	}
	return out
}

func size(p *model.Pool) int64 {
	sum := new(big.Int)
	for _, r := range p.Ranges {
		from, to := new(big.Int).SetBytes(r.From.AsSlice()), new(big.Int).SetBytes(r.To.AsSlice())
		if n := to.Sub(to, from); n.Sign() >= 0 {
			sum.Add(sum, n.Add(n, big.NewInt(1)))
		}
	}
	if !sum.IsInt64() {
		return 1<<63 - 1
	}
	return sum.Int64()
}

// poolWriter writes the status of pools, the newest one only.
type poolWriter struct {
	client   dynamic.Interface
	recorder record.EventRecorder // may be nil
	log      *slog.Logger
	wake     chan struct{}

	mu   sync.Mutex
	want map[string]poolStatus
	told map[string]poolStatus
}

func newPoolWriter(client dynamic.Interface, recorder record.EventRecorder, log *slog.Logger) *poolWriter {
	return &poolWriter{client: client, recorder: recorder, log: log, wake: make(chan struct{}, 1), told: map[string]poolStatus{}}
}

func (w *poolWriter) set(want map[string]poolStatus) {
	w.mu.Lock()
	w.want = want
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *poolWriter) run(ctx context.Context) {
	if w.client == nil {
		return
	}
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-retry:
		}
		retry = nil
		if !w.write(ctx) {
			retry = time.After(poolRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(poolPause):
		}
	}
}

func (w *poolWriter) newest() map[string]poolStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.want
}

// write reports whether all went well.
func (w *poolWriter) write(ctx context.Context) bool {
	want, ok := w.newest(), true
	for name := range w.told {
		if _, there := want[name]; !there {
			delete(w.told, name)
		}
	}
	for name, st := range want {
		if told, known := w.told[name]; known && told == st {
			continue
		}
		patch, err := json.Marshal(map[string]any{"status": st})
		if err == nil {
			_, err = w.client.Resource(poolResource).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		if err != nil && !apierrors.IsNotFound(err) {
			w.log.Warn("status of the AddressPool not written", "pool", name, "err", err)
			ok = false
			continue
		}
		if st.Problem != "" && st.Problem != w.told[name].Problem && err == nil {
			w.warn(name, st.Problem)
		}
		w.told[name] = st
	}
	return ok
}

// ReasonPool is that of an Event about a pool whose addresses cannot all be used.
const ReasonPool = "AddressesUnusable"

func (w *poolWriter) warn(name, problem string) {
	w.log.Warn("AddressPool", "code", string(flow.PoolUnusable), "pool", name, "problem", problem)
	if w.recorder != nil {
		ref := &corev1.ObjectReference{APIVersion: poolResource.GroupVersion().String(), Kind: "AddressPool", Name: name}
		w.recorder.Event(ref, corev1.EventTypeWarning, ReasonPool, string(flow.PoolUnusable)+": "+problem)
	}
}
