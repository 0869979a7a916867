// Package loadbalancer gives addresses of AddressPools to Services of type LoadBalancer: it decides (Allocate: pure) and
// writes status.loadBalancer, a condition and Events (Controller). What is given stands in the Services' own status, so a
// restart forgets nothing. It announces nothing (hop announce does) and leaves alone what other controllers gave.
package loadbalancer
