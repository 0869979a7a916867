// Package routes is the decision of the ingress: which Service answers a request for a host and a path, and which Secret
// serves a host's TLS. A Table is made from a Snapshot, is never changed, and is derived anew at the cost of what changed.
// It owns no socket, no certificate that went bad (package certs remembers the last good one) and no request.
package routes
