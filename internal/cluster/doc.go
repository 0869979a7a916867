// Package cluster brings Kubernetes objects in: from an API server by watch (Watch) or once (Load), from YAML (Decode,
// LoadFolder). It converts them into package model and trims them at the door, so that nothing behind it holds an API
// object. It writes nothing to the API (package control does) and decides nothing.
package cluster
