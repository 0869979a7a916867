// Package announce is the hop that brings packets for a LoadBalancer address to one node: who announces it (pure and the
// same on every node, without a lease) and the Announcers that do so on the wire. It announces only addresses of the
// cluster's AddressPools, or of Services that ask for podway by class, and never an address of a node. It gives no
// addresses (control/loadbalancer does) and programs no rule for them (hop proxy does).
package announce
