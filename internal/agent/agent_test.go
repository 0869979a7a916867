package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
)

// recorder is a hop that notes what it was asked to apply.
type recorder struct {
	mu      sync.Mutex
	applied []uint64
	full    []bool
	fail    int // so many applies fail first
	drift   string
	blind   error // of Check
}

func (r *recorder) Name() string { return "recorder" }
func (r *recorder) Apply(_ context.Context, s *model.Snapshot, c model.Change) (hop.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail > 0 {
		r.fail--
		return hop.Report{}, errors.New("kernel said no")
	}
	r.applied, r.full = append(r.applied, s.Rev), append(r.full, c.All)
	return hop.Report{Changed: 1}, nil
}
func (r *recorder) Declared(*model.Snapshot, flow.Flow) flow.Verdict { return flow.Verdict{} }
func (r *recorder) Programmed(context.Context, flow.Flow) (flow.Verdict, error) {
	return flow.Verdict{}, nil
}
func (r *recorder) Remove(context.Context) error { return nil }
func (r *recorder) Check(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.drift
	r.drift = ""
	return d, r.blind
}

type chanSource chan *model.Snapshot

func (c chanSource) Run(ctx context.Context, put func(*model.Snapshot)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-c:
			put(s)
		}
	}
}

func run(t *testing.T, r *recorder) (*Agent, chanSource) {
	src := make(chanSource)
	a := &Agent{Source: src, Hops: []hop.Hop{r}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}
	go func() { _ = a.Run(t.Context()) }()
	return a, src
}

func TestAFailedApplyIsRetriedInFullAndReadinessFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fail: 3}
		a, src := run(t, r)
		if a.Ready() == nil {
			t.Fatal("ready before the first view")
		}
		src <- &model.Snapshot{Rev: 1}
		synctest.Wait()
		if a.Ready() == nil {
			t.Fatal("ready although the apply failed")
		}
		time.Sleep(time.Second)
		if err := a.Ready(); err != nil || len(r.applied) != 1 || !r.full[0] {
			t.Fatalf("after retries: ready %v, applied %v, full %v", err, r.applied, r.full)
		}
		src <- &model.Snapshot{Rev: 2}
		synctest.Wait()
		if len(r.applied) != 2 || r.full[1] {
			t.Fatalf("the next one must be a change, not everything: %v %v", r.applied, r.full)
		}
		r.mu.Lock()
		r.fail = 1
		r.mu.Unlock()
		src <- &model.Snapshot{Rev: 3}
		src <- &model.Snapshot{Rev: 4}
		synctest.Wait()
		if err := a.Ready(); err != nil || len(a.Status().Failing) != 1 || len(r.applied) != 2 {
			t.Fatalf("a later failure leaves the node in service and is told: %v, %+v, applied %v", err, a.Status(), r.applied)
		}
		time.Sleep(time.Second)
		if len(r.applied) != 3 || r.applied[2] != 4 || !r.full[2] || len(a.Status().Failing) != 0 {
			t.Fatalf("the retry applies the newest in full: %v %v", r.applied, r.full)
		}
	})
}

func TestDriftIsRepairedWithinASecondOrSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		_, src := run(t, r)
		src <- &model.Snapshot{Rev: 1}
		synctest.Wait()
		r.mu.Lock()
		r.drift = "table is gone"
		r.mu.Unlock()
		time.Sleep(checkEvery + time.Millisecond)
		synctest.Wait()
		if len(r.applied) != 2 || !r.full[1] {
			t.Fatalf("applied %v, full %v", r.applied, r.full)
		}
	})
}

func TestACheckThatKeepsFailingIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	r := &recorder{blind: errors.New("netlink is busy")}
	l := newLoop(r, slog.New(slog.NewTextHandler(&log, nil)), newMetrics(nil))
	check := func(err error, lines int) {
		t.Helper()
		r.blind = err
		if l.drifted(t.Context()) {
			t.Error("a check that found nothing is drift")
		}
		if n := bytes.Count(log.Bytes(), []byte("\n")); n != lines {
			t.Errorf("%d lines, want %d:\n%s", n, lines, log.String())
		}
	}
	check(r.blind, 1)
	check(r.blind, 1)
	check(nil, 1)
	check(errors.New("netlink is busy"), 2)
}

func TestOnlyTheNewestSnapshotWaits(t *testing.T) {
	l := newLoop(&recorder{}, slog.New(slog.DiscardHandler), newMetrics(nil))
	for rev := range uint64(5) {
		l.put(&model.Snapshot{Rev: rev})
	}
	if s := <-l.box; s.Rev != 4 {
		t.Fatalf("got revision %d", s.Rev)
	}
}

// lame is a hop that takes its time to leave.
type lame struct {
	recorder
	left chan struct{}
}

func (l *lame) Close(context.Context) error {
	time.Sleep(3 * time.Second)
	close(l.left)
	return nil
}

func TestWhileAHopLeavesAllHopsStillFollowTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, src := &lame{left: make(chan struct{})}, make(chanSource)
		a := &Agent{Source: src, Hops: []hop.Hop{h}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		src <- &model.Snapshot{Rev: 1}
		synctest.Wait()
		stop()
		time.Sleep(time.Second)
		src <- &model.Snapshot{Rev: 2}
		synctest.Wait()
		if len(h.applied) != 2 {
			t.Errorf("applied %v: the second snapshot came while the hop was leaving", h.applied)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-h.left
	})
}
