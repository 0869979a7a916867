// Package agent runs hops on a node: it feeds each the newest snapshot, applies, retries and repairs, and says what is
// ready. It makes no decision about traffic and reads no API object; hops.go is the list of hops in request order.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
)

// Source gives snapshots: the first put is the complete view, put is called from one goroutine.
type Source interface {
	Run(ctx context.Context, put func(*model.Snapshot)) error
}

// Agent runs hops over a source.
type Agent struct {
	Source  Source
	Hops    []hop.Hop
	Node    string
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Leave   time.Duration // how long the hops may take to end their service; 0 = 8 s

	once  sync.Once
	loops []*loop
}

func (a *Agent) init() {
	a.once.Do(func() {
		m := newMetrics(a.Metrics)
		for _, h := range a.Hops {
			a.loops = append(a.loops, newLoop(h, a.Log.With("hop", h.Name(), "node", a.Node), m))
		}
	})
}

// Run feeds the hops until ctx ends or the source fails. It leaves all kernel state in place. A hop whose service must end
// with care gets its time while all hops still follow the cluster: the others' nodes must be found meanwhile.
func (a *Agent) Run(ctx context.Context) error {
	a.init()
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	for _, l := range a.loops {
		wg.Go(func() { l.run(run) })
	}
	wg.Go(func() {
		select {
		case <-ctx.Done():
			a.leave()
			stop()
		case <-run.Done():
		}
	})
	err := a.Source.Run(run, func(s *model.Snapshot) {
		for _, l := range a.loops {
			l.put(s)
		}
	})
	stop()
	wg.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// leaver is a hop whose service must end with care. What the kernel serves stays as it is.
type leaver interface{ Close(context.Context) error }

const leaveMost = 8 * time.Second

func (a *Agent) leave() {
	most := a.Leave
	if most == 0 {
		most = leaveMost
	}
	ctx, stop := context.WithTimeout(context.Background(), most)
	defer stop()
	for _, h := range a.Hops {
		if l, ok := h.(leaver); ok {
			if err := l.Close(ctx); err != nil {
				a.Log.Warn("end of service", "hop", h.Name(), "err", err)
			}
		}
	}
}

// Ready returns an error that names the first hop that has not yet applied a complete view, or says itself that it is not
// ready.
func (a *Agent) Ready() error {
	a.init()
	for _, l := range a.loops {
		if err := l.ready(); err != nil {
			return fmt.Errorf("%s: %w", l.hop.Name(), err)
		}
	}
	return nil
}

// Status is how the hops are.
type Status struct {
	Hops     []string          // in the order given
	Rev      uint64            // of the oldest snapshot that a hop has applied last
	Synced   bool              // every hop has applied a complete view
	Failing  map[string]string // hop -> error of its last apply
	Findings []flow.Finding    // of the last applies
}

// Status gathers how each hop is.
func (a *Agent) Status() Status {
	a.init()
	st := Status{Synced: true, Failing: map[string]string{}}
	for i, l := range a.loops {
		rev, synced, err, findings := l.state()
		st.Hops = append(st.Hops, l.hop.Name())
		if i == 0 || rev < st.Rev {
			st.Rev = rev
		}
		st.Synced = st.Synced && synced
		if synced && err != nil {
			st.Failing[l.hop.Name()] = err.Error()
		}
		st.Findings = append(st.Findings, findings...)
	}
	return st
}
