package sockets

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// listening is a Listener with the inode that ties it to a process.
type listening struct {
	Listener
	inode string
}

// The states of /proc/net/{tcp,udp} that take anybody's packets (include/net/tcp_states.h).
const (
	tcpListen = "0A"
	udpOpen   = "07" // TCP_CLOSE: a UDP socket that is not connected
)

// parseTable reads a table of /proc/PID/net/{tcp,tcp6,udp,udp6}.
func parseTable(proto, data string) ([]listening, error) {
	want := tcpListen
	if proto == "udp" {
		want = udpOpen
	}
	var out []listening
	for i, line := range strings.Split(data, "\n") {
		w := strings.Fields(line)
		if i == 0 || len(w) == 0 {
			continue
		}
		if len(w) < 10 {
			return nil, fmt.Errorf("line %d has %d columns, want at least 10", i+1, len(w))
		}
		if w[3] != want {
			continue
		}
		a, err := parseAddr(w[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		out = append(out, listening{Listener{Proto: proto, Addr: a}, w[9]})
	}
	return out, nil
}

// parseAddr reads "0100007F:1F90": the address as 32-bit words in the machine's byte order, the port in hexadecimal.
func parseAddr(s string) (netip.AddrPort, error) {
	host, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	if !ok || err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, fmt.Errorf("address %q", s)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port of %q", s)
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	a, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}

// Bound says how a port is reached from outside the Pod.
type Bound int

// The ways.
const (
	Nowhere  Bound = iota // nothing listens
	Loopback              // only on 127.0.0.0/8 or ::1
	Family                // only on the other address family
	Reached               // on the address, or on all
)

// On reports how the report's sockets take a packet to dst. A socket on :: takes both families, as it does unless the
// program asked for IPV6_V6ONLY, which /proc does not show.
func (r Report) On(proto string, dst netip.AddrPort) (Bound, []Listener) {
	best, all := Nowhere, []Listener(nil)
	for _, l := range r.Listeners {
		if l.Proto != proto || l.Addr.Port() != dst.Port() {
			continue
		}
		all = append(all, l)
		best = max(best, bound(l.Addr.Addr(), dst.Addr()))
	}
	return best, all
}

func bound(on, dst netip.Addr) Bound {
	switch {
	case on.IsLoopback():
		return Loopback
	case on == dst || on == netip.IPv6Unspecified() || on.IsUnspecified() && on.Is4() == dst.Is4():
		return Reached
	case on.Is4() != dst.Is4():
		return Family
	}
	return Nowhere // another address of the Pod
}
