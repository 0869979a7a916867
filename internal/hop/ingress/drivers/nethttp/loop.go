package nethttp

import (
	"net/http"
	"strings"
)

// The mark of RFC 8586: each pass through an ingress of podway adds one. Unlike Via it does not make endpoints send their
// answers uncompressed.
const (
	loopHeader = "Cdn-Loop"
	loopMark   = "podway-ingress"
)

// maxPasses is how often one request may come by: an application may well send it on to another host of the same ingress,
// but a backend that leads to the ingress itself would have it go round until memory or ports are used up.
const maxPasses = 8

// firstPass is shared by all requests; nobody may write to it.
var firstPass = []string{loopMark}

// passes is how often a request was here.
func passes(h http.Header) (n int) {
	for _, line := range h[loopHeader] {
		n += strings.Count(line, loopMark)
	}
	return n
}

// markPass adds this pass to the headers for the endpoint.
func markPass(h http.Header) {
	if old := h[loopHeader]; len(old) > 0 {
		h[loopHeader] = []string{strings.Join(old, ", ") + ", " + loopMark}
		return
	}
	h[loopHeader] = firstPass
}
