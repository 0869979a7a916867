// Package examples holds objects to try podway with. `podway demo` applies those of folder demo; `kubectl apply -f` does too.
package examples

import _ "embed"

// Demo is the YAML of the demo's namespace, workloads, Services and Ingress.
//
//go:embed demo/demo.yaml
var Demo []byte

// Soak is the YAML of the servers and clients that `make soak` and the end-to-end test put under load.
//
//go:embed soak/soak.yaml
var Soak []byte
