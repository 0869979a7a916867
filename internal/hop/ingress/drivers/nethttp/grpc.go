package nethttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// A gRPC call that its endpoint resets is answered with a status in trailers. net/http can only reset the client's
// stream with INTERNAL_ERROR, which clients show as a fault of the proxy.

func isGRPC(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "application/grpc") }

// Status codes of gRPC that a reset can mean.
const (
	grpcCanceled          = 1
	grpcDeadlineExceeded  = 4
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

// grpcReset is the status of a call whose endpoint reset the stream, by the mapping of gRPC's protocol ("Errors" in
// PROTOCOL-HTTP2). A server cancels what is past its deadline, so then the deadline is the reason; ok is false when err
// is no reset.
func grpcReset(err error, late bool) (code int, ok bool) {
	reset, ok := errors.AsType[http2.StreamError](err)
	if !ok {
		return 0, false
	}
	switch reset.Code {
	case http2.ErrCodeRefusedStream:
		return grpcUnavailable, true
	case http2.ErrCodeCancel:
		if late {
			return grpcDeadlineExceeded, true
		}
		return grpcCanceled, true
	case http2.ErrCodeEnhanceYourCalm:
		return grpcResourceExhausted, true
	case http2.ErrCodeInadequateSecurity:
		return grpcPermissionDenied, true
	}
	return grpcInternal, true
}

// grpcStatus gives the headers, or with a prefix the trailers, that end a call.
func grpcStatus(h http.Header, prefix string, code int) {
	h[prefix+"Grpc-Status"] = []string{strconv.Itoa(code)}
	h[prefix+"Grpc-Message"] = []string{"podway ingress: the endpoint ended the call early"}
}

var grpcUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// late reports whether the client's own deadline (grpc-timeout: up to 8 digits and a unit) is over.
func (e *exchange) late() bool {
	v := e.r.Header.Get("Grpc-Timeout")
	if len(v) < 2 || len(v) > 9 {
		return false
	}
	n, err := strconv.ParseUint(v[:len(v)-1], 10, 32)
	unit, ok := grpcUnits[v[len(v)-1]]
	return err == nil && ok && n <= uint64(math.MaxInt64/unit) && time.Since(e.began) >= time.Duration(n)*unit
}

// resetCall ends a gRPC call that its endpoint reset, in trailers when the answer had begun. It reports whether err was
// such a reset.
func (e *exchange) resetCall(err error, begun bool) bool {
	code, ok := grpcReset(err, e.late())
	if !ok || e.r.ProtoMajor < 2 || !isGRPC(e.r.Header) {
		return false
	}
	if begun {
		grpcStatus(e.w.Header(), http.TrailerPrefix, code)
		return true
	}
	h := e.w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	grpcStatus(h, "", code)
	e.status = http.StatusOK
	e.w.WriteHeader(http.StatusOK)
	return true
}
