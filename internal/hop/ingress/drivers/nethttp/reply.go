package nethttp

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// reply sends the endpoint's answer to the client.
func (e *exchange) reply(res *http.Response) {
	defer res.Body.Close()
	h := e.w.Header()
	for k, v := range endToEnd(res.Header, 0) {
		h[k] = v
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	announced := len(res.Trailer)
	for k := range res.Trailer {
		if !hopByHop[k] {
			h.Add("Trailer", k)
		}
	}
	e.status = res.StatusCode
	e.w.WriteHeader(res.StatusCode)
	err := e.copyBody(res, announced > 0)
	if e.body.unfinished() {
		// The endpoint answered without reading all. net/http reads the rest, but not for ever.
		http.NewResponseController(e.w).SetReadDeadline(time.Now().Add(5 * time.Second))
	}
	if err != nil && e.resetCall(err, true) {
		return
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client must see that the answer is not whole
	}
	for k, v := range res.Trailer {
		if hopByHop[k] {
			continue
		}
		if len(res.Trailer) != announced {
			k = http.TrailerPrefix + k
		}
		h[k] = v
	}
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyBody streams the body. What has no length, and events and gRPC always, reaches the client as it comes; of a body
// with a length, so does what came alone.
func (e *exchange) copyBody(res *http.Response, chunked bool) error {
	flusher := http.NewResponseController(e.w)
	stream := res.ContentLength < 0 || isGRPC(res.Header) || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	if (stream || chunked) && res.ContentLength != 0 { // without a body the head alone must end an HTTP/2 stream
		if err := flusher.Flush(); err != nil {
			return err
		}
	}
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for sent := int64(0); ; {
		n, err := res.Body.Read(buf[:])
		if n > 0 {
			if _, werr := e.w.Write(buf[:n]); werr != nil {
				return werr
			}
			sent += int64(n)
			if err == nil && (stream || n < len(buf) && sent < res.ContentLength) {
				if ferr := flusher.Flush(); ferr != nil {
					return ferr
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			e.s.opt.Observer.UpstreamFailed(e.match.Backend.Key.Service, reasonOf(err))
			return err
		}
	}
}
