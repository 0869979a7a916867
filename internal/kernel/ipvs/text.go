package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Text is the state in the words of `ip address` and `ipvsadm -Ln`, without numbers of connections.
func (s *State) Text(device string) string {
	var b strings.Builder
	if s.Device {
		fmt.Fprintf(&b, "device %s\n", device)
	}
	for _, a := range slices.SortedFunc(maps.Keys(s.Addrs), netip.Addr.Compare) {
		fmt.Fprintf(&b, "  address %s\n", a)
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.Servers), Key.Compare) {
		b.WriteString(s.Servers[k].Text())
	}
	return b.String()
}

// Text is the server as `ipvsadm -Ln` shows it. Destinations that take no new connections are left out: when they go
// depends on the connections that they have.
func (s *Server) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s %s", protoName(s.Proto), s.Addr, s.Scheduler)
	if s.Fallback {
		fmt.Fprintf(&b, " (%s-fallback)", s.Scheduler)
	}
	if s.Persistence > 0 {
		fmt.Fprintf(&b, " persistent %d", int(s.Persistence.Seconds()))
	}
	b.WriteString("\n")
	for _, t := range s.Targets() {
		how := "Masq"
		if s.Dests[t].Foreign {
			how = "other"
		}
		fmt.Fprintf(&b, "  -> %s %s %d\n", t, how, s.Dests[t].Weight)
	}
	return b.String()
}

func protoName(p uint8) string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return fmt.Sprintf("protocol %d", p)
}
