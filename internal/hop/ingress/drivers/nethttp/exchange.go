package nethttp

import (
	"net/http"
	"net/url"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/routes"
)

// exchange is one request and its answer.
type exchange struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	out    http.Header // headers to the endpoint
	path   string      // canonical
	match  routes.Match
	lb     *balancer
	body   *requestBody // nil when there is none
	socket bool         // the client wants a WebSocket
	status int          // answered to the client
	began  time.Time
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	s.inFlight.Add(1)
	s.opt.Observer.Began()
	e := &exchange{s: s, w: w, r: r, began: began}
	defer func() {
		s.inFlight.Add(-1)
		s.opt.Observer.Done(e.match.Route, e.status, time.Since(began))
	}()
	if s.draining.Load() {
		w.Header()["Connection"] = []string{"close"} // net/http makes it a GOAWAY for HTTP/2
	}
	if e.route() {
		e.prepare()
		e.forward()
	}
}

// route finds the backend, or answers itself: 400 for what has no single meaning, 404 without a rule, 503 without an
// endpoint. The texts name the finding, so that nobody takes them for the application's.
func (e *exchange) route() bool {
	st := e.s.state.Load()
	host, ok := routes.Host(e.r.Host)
	if !ok || !plainQuery(e.r.URL.RawQuery) {
		return e.refuse("host or query")
	}
	if passes(e.r.Header) >= maxPasses {
		return e.answer(http.StatusLoopDetected, "the request goes round in circles: the Service behind this Ingress rule leads back to the ingress")
	}
	if e.r.Method == http.MethodConnect {
		return e.answer(http.StatusMethodNotAllowed, "CONNECT is not served")
	}
	raw := e.r.URL.EscapedPath()
	if raw == "" {
		raw = "/"
	}
	var err error
	if e.match, e.path, err = st.table.Resolve(host, raw); err != nil {
		return e.refuse("path")
	}
	switch m := e.match; {
	case m.Route == nil:
		return e.answer(http.StatusNotFound, "no Ingress rule for this host and path ("+string(flow.IngressNoRule)+")")
	case m.Backend.State != routes.Serving:
		return e.answer(http.StatusServiceUnavailable, string(m.Backend.State)+" behind this Ingress rule ("+string(codeOf(m.Backend.State))+")")
	}
	e.lb = st.balancers.At(e.match.Route.Backend)
	return true
}

func codeOf(s routes.State) flow.Code {
	switch s {
	case routes.NoService:
		return flow.IngressNoService
	case routes.NoPort:
		return flow.IngressNoPort
	case routes.NoEndpoint:
		return flow.IngressNoBackend
	}
	return flow.IngressUnsupported
}

// refuse answers 400 and closes: whatever else the client sends would be read with the same doubt.
func (e *exchange) refuse(what string) bool {
	e.s.opt.Observer.Refused(what)
	e.w.Header()["Connection"] = []string{"close"}
	return e.answer(http.StatusBadRequest, "the request's "+what+" is malformed or ambiguous")
}

func (e *exchange) answer(status int, text string) bool {
	h := e.w.Header()
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	e.status = status
	e.w.WriteHeader(status)
	e.w.Write([]byte("podway ingress: " + text + "\n"))
	return false
}

// plainQuery keeps out what would end the request line early; HTTP/2 lets it come this far.
func plainQuery(q string) bool {
	for i := 0; i < len(q); i++ {
		if q[i] <= ' ' || q[i] == 0x7f {
			return false
		}
	}
	return true
}

// prepare makes what all attempts share.
func (e *exchange) prepare() {
	r := e.r
	h := endToEnd(r.Header, 8)
	e.s.forwarded(h, r)
	markPass(h)
	if hasToken(r.Header["Te"], "trailers") {
		h["Te"] = []string{"trailers"} // gRPC servers want to see it
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // keeps http.Transport from giving its own
	}
	e.out = h
	e.socket = wantsWebSocket(r)
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		e.body = &requestBody{from: r.Body, trailer: r.Trailer}
		if r.ProtoMajor == 1 {
			http.NewResponseController(e.w).EnableFullDuplex() // an endpoint may answer before it has read all
		}
	}
}

// request is what is sent to one endpoint.
func (e *exchange) request(u *upstream) *http.Request {
	path := e.path
	if p, err := url.PathUnescape(path); err == nil {
		path = p
	}
	out := &http.Request{
		Method: e.r.Method, Host: e.r.Host, Header: e.out,
		URL: &url.URL{
			Scheme: u.scheme(), Host: u.key.addr.String(), Path: path, RawPath: e.path,
			RawQuery: e.r.URL.RawQuery, ForceQuery: e.r.URL.ForceQuery,
		},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if e.body != nil {
		out.Body, out.ContentLength, out.Trailer = e.body, e.r.ContentLength, e.r.Trailer
	}
	if e.socket && u.upgrades() {
		h := e.out.Clone()
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
		out.Header = h
	}
	return out
}
