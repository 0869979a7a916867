package cluster

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	patienceFirst = 100 * time.Millisecond
	patienceMost  = 2 * time.Second
)

// Patience asks an API server to which no connection can be made again and again, until the asker gives up. client-go's
// watches would do that too, but ever more rarely: after an outage of 20 seconds they look again up to a minute later,
// and a whole cluster works with an old view. Only reads whose connection failed are asked again: nothing was sent. What
// the API server answers, "too many requests" too, goes to the asker.
type Patience struct {
	Log *slog.Logger

	refused atomic.Bool
}

// Wrap is for rest.Config.Wrap.
func (p *Patience) Wrap(next http.RoundTripper) http.RoundTripper { return patientTrip{p, next} }

type patientTrip struct {
	patience *Patience
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t patientTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	for pause := patienceFirst; ; pause = min(2*pause, patienceMost) {
		res, err := t.next.RoundTrip(r)
		if err == nil {
			t.patience.answered()
			return res, nil
		}
		if r.Method != http.MethodGet || r.Context().Err() != nil || !notConnected(err) {
			return nil, err
		}
		t.patience.notAnswered(err)
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) // many nodes lose it at once
		select {
		case <-r.Context().Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
	}
}

// notConnected reports whether a request was never sent.
func notConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func (p *Patience) notAnswered(err error) {
	if !p.refused.Swap(true) {
		p.Log.Warn("no connection to the API server; keeping the last view", "err", err)
	}
}

func (p *Patience) answered() {
	if p.refused.Swap(false) {
		p.Log.Info("the API server answers again")
	}
}
