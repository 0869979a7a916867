package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podway/podway/internal/control/endpointslice"
	"github.com/podway/podway/internal/control/loadbalancer"
	"github.com/podway/podway/internal/control/status"
	"github.com/podway/podway/internal/model"
)

// Component is the name in Events and of the Lease.
const Component = "podway-controller"

// Source gives snapshots: Services, EndpointSlices, Nodes, Pods, Ingresses, IngressClasses and AddressPools. The first one
// it puts is the complete view.
type Source interface {
	Run(ctx context.Context, put func(*model.Snapshot)) error
}

// Loops says which loops run.
type Loops struct{ EndpointSlice, LoadBalancer, Status bool }

// AllLoops runs everything.
var AllLoops = Loops{EndpointSlice: true, LoadBalancer: true, Status: true}

// Options say what runs, and with what.
type Options struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface // for the status of AddressPools; may be nil
	Source  Source
	Log     *slog.Logger // nil = slog.Default()

	Loops           Loops
	Adopt           bool          // see endpointslice.Controller
	KubernetesNames bool          // see endpointslice.Controller
	NoEndpoints     bool          // write no v1 Endpoints
	Ingress         status.Config // zero = status.DefaultConfig
	Ranges          loadbalancer.Ranges

	Namespace  string     // of the Lease; "" = kube-system
	Identity   string     // in the Lease; "" = host name and a random part
	NoElection bool       // there is only one: lead at once, without a Lease
	OnLeading  func(bool) // told when this process begins and ends to lead; may be nil

	Metrics prometheus.Registerer // nil = none
}

// Run follows the source and, while this process leads, runs the loops. It returns when ctx ends, having stopped the
// loops and then released the Lease, or when the source fails.
func Run(ctx context.Context, o Options) error {
	r, err := newRunner(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	failed := make(chan error, 1)
	wg.Go(func() {
		if err := o.Source.Run(ctx, r.hub.put); err != nil && ctx.Err() == nil {
			failed <- fmt.Errorf("control: source: %w", err)
			cancel()
		}
	})
	for ctx.Err() == nil {
		if o.NoElection {
			r.lead(ctx)
		} else if err := r.term(ctx); err != nil {
			return err
		}
	}
	select {
	case err := <-failed:
		return err
	default:
		return ctx.Err()
	}
}

type runner struct {
	Options
	hub hub
	metrics
}

func newRunner(o Options) (*runner, error) {
	if o.Client == nil || o.Source == nil {
		return nil, errors.New("control: Options lack Client or Source")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Namespace == "" {
		o.Namespace = "kube-system"
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("control: identity: %w", err)
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
	}
	if o.OnLeading == nil {
		o.OnLeading = func(bool) {}
	}
	return &runner{Options: o, metrics: newMetrics(o.Metrics)}, nil
}

// loop is what every control loop looks like.
type loop interface {
	Run(ctx context.Context, in <-chan *model.Snapshot) error
}

// lead runs the loops until ctx ends; all have stopped when it returns.
func (r *runner) lead(ctx context.Context) {
	r.Log.Info("leading", "identity", r.Identity)
	r.leads(true)
	defer r.leads(false)
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: r.Client.CoreV1().Events("")})
	recorder := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Component})
	var wg sync.WaitGroup
	for name, make := range r.loops(recorder) {
		wg.Go(func() { r.keep(ctx, name, make) })
	}
	wg.Wait()
	r.Log.Info("not leading any more", "identity", r.Identity)
}

// loops makes each loop anew for each term, so that nothing is left of an earlier one.
func (r *runner) loops(recorder record.EventRecorder) map[string]func() loop {
	out := map[string]func() loop{}
	if r.Loops.EndpointSlice {
		out["endpointslice"] = func() loop {
			return &endpointslice.Controller{Client: r.Client, Recorder: recorder, Log: r.Log, Metrics: r.slices,
				Adopt: r.Adopt, KubernetesNames: r.KubernetesNames, NoEndpoints: r.NoEndpoints}
		}
	}
	if r.Loops.LoadBalancer {
		out["loadbalancer"] = func() loop {
			return &loadbalancer.Controller{Client: r.Client, Dynamic: r.Dynamic, Recorder: recorder, Ranges: r.Ranges, Log: r.Log, Metrics: r.addresses}
		}
	}
	if r.Loops.Status {
		out["status"] = func() loop { return &status.Controller{Client: r.Client, Log: r.Log, Config: r.Ingress} }
	}
	return out
}

// keep runs one loop, again if it fails, until ctx ends. A loop that fails does not stop the others.
func (r *runner) keep(ctx context.Context, name string, make func() loop) {
	for {
		in, done := r.hub.subscribe()
		err := make().Run(ctx, in)
		done()
		if ctx.Err() != nil {
			return
		}
		r.Log.Error("control loop failed; starting it again", "loop", name, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
