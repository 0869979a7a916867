// Package arp is the Announcer for IPv4 on an Ethernet segment: it answers ARP requests for the addresses this node
// announces, and tells the segment by gratuitous ARP when an address comes to this node (RFC 826, RFC 5227). It owns no
// address on any device, so that nothing is left behind when its process ends.
package arp
