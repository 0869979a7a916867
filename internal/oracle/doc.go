// Package oracle compares podway's service proxy with another one on the same objects: random clusters from a seed, steps
// that change them, and real packets from every kind of client, once through podway and once through the peer (kube-proxy,
// or another mode of podway). It owns the generator, the questions, the comparison and the list of differences that are on
// purpose. The worlds in which packets are sent are package scenario's; what is right is nobody's affair here, only what
// is equal.
package oracle
