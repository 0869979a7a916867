// Package model is what the cluster says: Services, endpoints, Nodes, Pods, Ingresses and pools as plain immutable values,
// held together by a Snapshot. It owns no watch (package cluster does) and no decision (each hop decides). Everything
// reachable from a Snapshot is shared and must never be written to; a changed object is a new object.
package model
