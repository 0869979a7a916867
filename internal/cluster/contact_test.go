package cluster

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a RoundTripper that gives one answer.
type answers struct {
	code int
	err  error
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.code, Body: http.NoBody}, nil
}

func TestContactIsLostFromTheFirstRequestWithoutAnswerToTheNextAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Contact
		server := &answers{code: http.StatusOK}
		trip := c.Wrap(server)
		ask := func(ctx context.Context) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api/", nil)
			if err != nil {
				t.Fatal(err)
			}
			if res, err := trip.RoundTrip(r); err == nil {
				res.Body.Close()
			}
		}
		want := func(what string, since time.Duration, lost bool) {
			t.Helper()
			if got, is := c.Lost(); got != since || is != lost {
				t.Errorf("%s: lost %t since %s, want %t since %s", what, is, got, lost, since)
			}
		}
		want("before the first request", 0, false)
		ask(t.Context())
		want("after an answer", 0, false)
		gone, stop := context.WithCancel(t.Context())
		stop()
		server.err = errors.New("connection refused")
		ask(gone)
		want("after the asker gave up", 0, false)
		ask(t.Context())
		time.Sleep(time.Minute)
		ask(t.Context())
		want("after a minute of refusals", time.Minute, true)
		server.err, server.code = nil, http.StatusServiceUnavailable
		ask(t.Context())
		want("after a load balancer's word", time.Minute, true)
		server.code = http.StatusForbidden
		ask(t.Context())
		want("after a refusal by the API server itself", 0, false)
	})
}
