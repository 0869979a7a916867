package nethttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"time"
)

// maxTries is how many endpoints a request is offered to.
const maxTries = 5

// forward sends the request to an endpoint and the answer to the client. It tries another endpoint only when the first
// cannot have seen the request, or may see it twice without harm.
func (e *exchange) forward() {
	var tried []*upstream
	var last error
	for {
		now := time.Now()
		u := e.lb.pick(now, tried)
		if u == nil { // every endpoint was tried
			e.fail(last)
			return
		}
		if last != nil {
			e.s.opt.Observer.Retried(e.match.Backend.Key.Service)
		}
		tried = append(tried, u)
		again, err := e.try(u, now)
		switch {
		case err == nil:
			return
		case !again || len(tried) == maxTries:
			e.fail(err)
			return
		}
		last = err
		e.lb = e.s.state.Load().balancers.At(e.match.Route.Backend) // the endpoints may be others by now
	}
}

// try offers the request to one endpoint. An error means that the client has got no answer yet; again says whether
// another endpoint may be asked.
func (e *exchange) try(u *upstream, now time.Time) (again bool, err error) {
	u.begin()
	defer u.end()
	a := &attempt{e: e}
	ctx := httptrace.WithClientTrace(e.r.Context(), a.trace())
	res, err := u.transport.RoundTrip(e.request(u).WithContext(ctx))
	a.end()
	if err != nil {
		return e.failed(u, a, err, now), err
	}
	u.answered()
	if res.StatusCode == http.StatusSwitchingProtocols {
		e.upgrade(res)
		return false, nil
	}
	e.reply(res)
	return false, nil
}

// failed counts the failure and says whether another endpoint may be tried.
func (e *exchange) failed(u *upstream, a *attempt, err error, now time.Time) bool {
	if e.r.Context().Err() != nil || e.body.broken() != nil {
		return false // the client's doing
	}
	service := e.match.Backend.Key.Service
	if _, ok := errors.AsType[*connectError](err); ok {
		u.connectFailed(now)
		e.s.opt.Observer.UpstreamFailed(service, "connect")
		return !e.body.begun()
	}
	e.s.opt.Observer.UpstreamFailed(service, reasonOf(err))
	if !isLoss(err) || e.body != nil {
		return false
	}
	switch e.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	case http.MethodPut, http.MethodDelete:
		return a.reused() // an idle connection that had died: the endpoint hardly saw it, and twice does no harm
	}
	return false
}

// isLoss tells a connection that broke from an answer that was too late or no HTTP.
func isLoss(err error) bool {
	if isTimeout(err) || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server closed idle connection") || strings.Contains(text, "GOAWAY") ||
		strings.Contains(text, "REFUSED_STREAM") || strings.Contains(text, "client connection lost") ||
		strings.Contains(text, "client conn not usable")
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

func reasonOf(err error) string {
	switch {
	case isTimeout(err):
		return "timeout"
	case isLoss(err):
		return "reset"
	}
	return "protocol"
}

// statusGone is what nginx logs when the client left before it was answered; nobody sees it.
const statusGone = 499

// fail answers a request that no endpoint took.
func (e *exchange) fail(err error) {
	switch {
	case e.body != nil && brokenRule(e.r.Context()) != nil:
		e.refuse("body")
	case e.r.Context().Err() != nil || e.body.broken() != nil:
		e.status = statusGone
		panic(http.ErrAbortHandler) // nothing half-answered must look whole
	case e.resetCall(err, false):
	case err != nil && isTimeout(err):
		e.answer(http.StatusGatewayTimeout, "no endpoint of the Service answered in time")
	default:
		e.answer(http.StatusBadGateway, "no endpoint of the Service could be asked")
	}
}

// attempt is what http.Transport tells while it works on a request, from goroutines of its own.
type attempt struct {
	e    *exchange
	mu   sync.Mutex
	over bool
	used bool // the connection had been used before
}

func (a *attempt) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			a.mu.Lock()
			a.used = c.Reused
			a.mu.Unlock()
		},
		Got1xxResponse: a.early,
	}
}

// early passes an interim answer such as 103 Early Hints on. 100 is between each two neighbours: net/http sends its own.
func (a *attempt) early(code int, header textproto.MIMEHeader) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || code == http.StatusContinue || !a.e.r.ProtoAtLeast(1, 1) {
		return nil
	}
	h := a.e.w.Header()
	sent := endToEnd(http.Header(header), 0)
	for k, v := range sent {
		h[k] = v
	}
	a.e.w.WriteHeader(code)
	for k := range sent {
		delete(h, k)
	}
	return nil
}

func (a *attempt) end() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
}

func (a *attempt) reused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}
