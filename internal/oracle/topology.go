package oracle

import (
	"fmt"
	"maps"
)

// The nodes and Pods of every generated case. They stay from case to case, so that only Services cost time.
const (
	nodeA, nodeB = "node-a", "node-b"
	clientA      = "client-a" // on node-a, an endpoint of nothing
	clientB      = "client-b" // on node-b, likewise
)

// backend is a Pod that Services may have as endpoint.
type backend struct {
	name, node string
	v4, v6     string
}

// backends answer at every port of targets, on TCP and UDP.
var (
	backends = []backend{
		{"back-a1", nodeA, "10.244.1.3", "fd00:244:1::3"}, {"back-a2", nodeA, "10.244.1.4", "fd00:244:1::4"},
		{"back-a3", nodeA, "10.244.1.5", "fd00:244:1::5"}, {"back-b1", nodeB, "10.244.2.3", "fd00:244:2::3"},
		{"back-b2", nodeB, "10.244.2.4", "fd00:244:2::4"},
		{"host-a", nodeA, "10.90.0.11", "fd00:90::11"}, {"host-b", nodeB, "10.90.0.12", "fd00:90::12"},
	}
	targets = []int{8080, 9090}
	zones   = map[string]string{nodeA: "zone-1", nodeB: "zone-2"}
)

// always is an expectation that holds in every state of every case.
const always = "pod client-a -> tcp pod/back-a1:8080 => pod back-a1"

// onHost reports whether the Pod has its node's network.
func (b *backend) onHost() bool { return b.name == "host-a" || b.name == "host-b" }

func (b *backend) addr(family string) string {
	if family == "IPv6" {
		return b.v6
	}
	return b.v4
}

// topology is the cluster without Services.
func topology() map[string]Doc {
	out := map[string]Doc{}
	for _, n := range []string{nodeA, nodeB} {
		out["Node "+n] = node(n, zones[n])
	}
	for i, c := range []string{clientA, clientB} {
		out["Pod default/"+c] = pod(&backend{c, []string{nodeA, nodeB}[i], fmt.Sprintf("10.244.%d.2", i+1), fmt.Sprintf("fd00:244:%d::2", i+1)})
	}
	for i := range backends {
		out["Pod default/"+backends[i].name] = pod(&backends[i])
	}
	return out
}

func node(name, zone string) Doc {
	return Doc{"apiVersion": "v1", "kind": "Node", "metadata": Doc{"name": name, "labels": Doc{"topology.kubernetes.io/zone": zone}}}
}

func pod(b *backend) Doc {
	var ports []any
	for _, t := range targets {
		ports = append(ports, Doc{"containerPort": t}, Doc{"containerPort": t, "protocol": "UDP"})
	}
	d := Doc{"apiVersion": "v1", "kind": "Pod", "metadata": Doc{"name": b.name},
		"spec":   Doc{"nodeName": b.node, "containers": []any{Doc{"name": "c", "ports": ports}}},
		"status": Doc{"podIPs": []any{Doc{"ip": b.v4}, Doc{"ip": b.v6}}}}
	if b.onHost() {
		d["spec"].(Doc)["hostNetwork"] = true
	}
	return d
}

// bare is a case without Services, between two others.
func bare() *Case {
	return &Case{Name: "bare", About: "Nodes and Pods without Services.", Steps: []Step{{Objects: maps.Clone(topology())}}}
}
