package main

import (
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// Request is one JSON value on standard input. Exactly one field is set; the first request is Open.
type Request struct {
	Open *Open `json:"open,omitempty"`
	Sync *Sync `json:"sync,omitempty"`
}

// Open chooses the proxier.
type Open struct {
	Mode         string   `json:"mode"` // nftables or iptables
	Node         v1.Node  `json:"node"` // the one whose rules are made; Pods of it are told by spec.podCIDRs
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
}

// Sync says what has changed since the last one and has it programmed.
type Sync struct {
	Node     *v1.Node                  `json:"node,omitempty"` // with other labels
	Services []v1.Service              `json:"services,omitempty"`
	Slices   []discovery.EndpointSlice `json:"slices,omitempty"`
	// DeletedServices and DeletedSlices are namespace/name.
	DeletedServices []string `json:"deletedServices,omitempty"`
	DeletedSlices   []string `json:"deletedSlices,omitempty"`
}

// Response answers each request in order, one JSON value a line.
type Response struct {
	Error string `json:"error,omitempty"`
	// What the sync took: wall clock, and CPU of this process and of the commands that it ran, in nanoseconds. What came
	// before it (reading JSON, telling the proxier of the objects) is not in it.
	TookNS int64 `json:"tookNS"`
	CPUNS  int64 `json:"cpuNS"`
	RSSKiB int64 `json:"rssKiB"` // resident memory of this process after the sync
}
