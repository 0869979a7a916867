package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// outage is a RoundTripper that fails until a time.
type outage struct {
	until time.Time
	err   error
	asked int
}

func (o *outage) RoundTrip(*http.Request) (*http.Response, error) {
	o.asked++
	if time.Now().Before(o.until) {
		return nil, o.err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func patient(t *testing.T, ctx context.Context, o *outage, method string) error {
	t.Helper()
	p := &Patience{Log: slog.New(slog.DiscardHandler)}
	r, err := http.NewRequestWithContext(ctx, method, "https://api/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Wrap(o).RoundTrip(r)
	if err == nil {
		res.Body.Close()
	}
	return err
}

func TestAReadGoesOnSoonAfterAnOutageHoweverLong(t *testing.T) {
	for _, length := range []time.Duration{time.Second, 20 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			o := &outage{until: time.Now().Add(length), err: errRefused}
			if err := patient(t, t.Context(), o, http.MethodGet); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(o.until); late > patienceMost {
				t.Errorf("outage of %s: went on %s after its end", length, late)
			}
			if most := int(length/(patienceMost/2)) + 10; o.asked > most {
				t.Errorf("outage of %s: asked %d times, want at most %d", length, o.asked, most)
			}
		})
	}
}

func TestOnlyReadsThatWereNotSentAreAskedAgain(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for what, c := range map[string]struct {
		method string
		err    error
	}{"a write": {http.MethodPut, errRefused}, "a read that was under way": {http.MethodGet, reset}} {
		synctest.Test(t, func(t *testing.T) {
			o := &outage{until: time.Now().Add(time.Second), err: c.err}
			if err := patient(t, t.Context(), o, c.method); !errors.Is(err, c.err) || o.asked != 1 {
				t.Errorf("%s: asked %d times, %v", what, o.asked, err)
			}
		})
	}
}

func TestTheAskerMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		err := patient(t, ctx, &outage{until: begin.Add(time.Hour), err: errRefused}, http.MethodGet)
		if took := time.Since(begin); !errors.Is(err, syscall.ECONNREFUSED) || took != 3*time.Second {
			t.Errorf("after %s: %v, want the cause after 3s", took, err)
		}
	})
}
