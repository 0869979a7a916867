package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
)

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
	checkEvery = time.Second // drift must be noticed and mended within about a second
)

// Checker is a hop that can tell cheaply whether its live state was changed by somebody else. Drift makes the loop
// apply everything again.
type Checker interface {
	Check(ctx context.Context) (drift string, err error)
}

// Finder is a hop whose findings change between applies too; it is asked after each Check.
type Finder interface{ Findings() []flow.Finding }

// loop applies the newest snapshot to one hop.
type loop struct {
	hop     hop.Hop
	log     *slog.Logger
	metrics *metrics
	box     chan *model.Snapshot // one slot: the newest snapshot that was not taken yet

	mu       sync.Mutex
	applied  bool // at least once
	rev      uint64
	lastErr  error
	findings []flow.Finding

	unchecked string // why the last check could not be made; only run uses it
}

func newLoop(h hop.Hop, log *slog.Logger, m *metrics) *loop {
	return &loop{hop: h, log: log, metrics: m, box: make(chan *model.Snapshot, 1), lastErr: errors.New("no complete view of the cluster yet")}
}

// put replaces whatever waits in the box. Only one goroutine may call it.
func (l *loop) put(s *model.Snapshot) {
	select {
	case <-l.box:
	default:
	}
	l.box <- s
}

// ready holds from the first apply on: a later failure leaves the last good state in place, so that taking the node out
// of service would only make it worse; Status, metrics and the log say it.
func (l *loop) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.applied {
		return l.lastErr
	}
	if h, ok := l.hop.(interface{ Ready() error }); ok {
		return h.Ready()
	}
	return nil
}

func (l *loop) state() (rev uint64, applied bool, err error, findings []flow.Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rev, l.applied, l.lastErr, l.findings
}

func (l *loop) run(ctx context.Context) {
	var want, have *model.Snapshot // have: the last one applied without error
	retry, wait := retryFirst, (<-chan time.Time)(nil)
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case want = <-l.box:
			if wait != nil { // an apply failed a moment ago: this one comes with the retry
				continue
			}
		case <-wait:
		case <-check.C:
			if want == nil || wait != nil {
				continue
			}
			drifted := l.drifted(ctx)
			l.find()
			if !drifted {
				continue
			}
			have = nil
		}
		if have == want {
			continue
		}
		wait = nil
		if err := l.apply(ctx, want, model.Diff(have, want)); err != nil {
			have, wait = nil, time.After(retry)
			retry = min(retry*2, retryMost)
			continue
		}
		have, retry = want, retryFirst
	}
}

func (l *loop) apply(ctx context.Context, s *model.Snapshot, c model.Change) error {
	start := time.Now()
	report, err := l.hop.Apply(ctx, s, c)
	took := time.Since(start)
	l.metrics.observe(l.hop.Name(), took, err)
	before, known := l.note(s.Rev, report, err)
	if err != nil {
		if before == nil || before.Error() != err.Error() { // said once, not at each retry
			l.log.Error("apply failed; will retry", "rev", s.Rev, "code", string(flow.ApplyFailed), "err", err)
		}
		return err
	}
	if report.Changed > 0 || c.All {
		l.log.Info("applied", "rev", s.Rev, "changed", report.Changed, "full", report.Full, "took", took.Round(time.Microsecond))
	}
	l.tell(report.Findings, known)
	return nil
}

// tell logs findings that were not known before.
func (l *loop) tell(now, known []flow.Finding) {
	for _, f := range now {
		if !slices.ContainsFunc(known, func(k flow.Finding) bool { return k.Code == f.Code && k.Object == f.Object }) {
			l.log.Warn("finding", "code", string(f.Code), "object", f.Object, "cause", f.Cause, "fix", f.Fix)
		}
	}
}

// find asks a hop for what is wrong now.
func (l *loop) find() {
	h, ok := l.hop.(Finder)
	if !ok {
		return
	}
	now := h.Findings()
	l.mu.Lock()
	known := l.findings
	if l.applied {
		l.findings = now
	}
	l.mu.Unlock()
	l.tell(now, known)
}

// note keeps the outcome of an apply and returns the error and the findings of the one before.
func (l *loop) note(rev uint64, r hop.Report, err error) (error, []flow.Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.lastErr, l.findings
	l.lastErr = err
	if err == nil {
		l.applied, l.rev, l.findings = true, rev, r.Findings
	}
	return before, known
}

func (l *loop) drifted(ctx context.Context) bool {
	c, ok := l.hop.(Checker)
	if !ok {
		return false
	}
	drift, err := c.Check(ctx)
	if err != nil {
		if err.Error() != l.unchecked { // said once, not at each check
			l.log.Warn("could not check the live state", "err", err)
		}
		l.unchecked = err.Error()
		return false
	}
	l.unchecked = ""
	if drift != "" {
		l.log.Warn("live state was changed by somebody else; repairing", "drift", drift)
		l.metrics.drift(l.hop.Name())
	}
	return drift != ""
}
