// Package control runs the loops that write to the Kubernetes API: EndpointSlices (endpointslice), LoadBalancer addresses
// (loadbalancer) and Ingress status (status). It owns leader election and hands each loop the newest snapshot; what the
// loops decide is theirs. Nothing in it is on the way of a request: with no leader, the cluster stays as it is.
package control
