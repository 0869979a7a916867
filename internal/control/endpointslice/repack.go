package endpointslice

import (
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

// host is what makes an address in Endpoints one and the same: several Pods of a node's network share an IP address.
type host struct {
	addr Address // of which only Addr and PodUID are set
}

// repack brings subsets into Kubernetes' canonical form: ports that exactly the same addresses serve share a subset. An
// address that is listed both ready and not ready for a port is not ready.
func repack(subsets []Subset) []Subset {
	first := map[host]Address{}
	serves := map[model.EndpointPort]map[host]bool{} // port -> address -> ready
	var order []model.EndpointPort
	for _, s := range subsets {
		for _, p := range portsOrNone(s.Ports) {
			if serves[p] == nil {
				serves[p] = map[host]bool{}
				order = append(order, p)
			}
			for i, list := range [][]Address{s.Ready, s.NotReady} {
				for _, a := range list {
					h := host{Address{Addr: a.Addr, PodUID: a.PodUID}}
					if _, ok := first[h]; !ok {
						first[h] = a
					}
					was, known := serves[p][h]
					serves[p][h] = i == 0 && (was || !known)
				}
			}
		}
	}
	var out []Subset
	at := map[string]int{}
	for _, p := range order {
		key := hostsKey(serves[p])
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, subsetOf(serves[p], first))
		}
		if p != (model.EndpointPort{}) {
			out[i].Ports = append(out[i].Ports, p)
		}
	}
	return out
}

// portsOrNone stands the zero port for a subset without ports, so that its addresses are not lost.
func portsOrNone(ports []model.EndpointPort) []model.EndpointPort {
	if len(ports) == 0 {
		return []model.EndpointPort{{}}
	}
	return ports
}

func subsetOf(hosts map[host]bool, first map[host]Address) (s Subset) {
	for h, ready := range hosts {
		if ready {
			s.Ready = append(s.Ready, first[h])
		} else {
			s.NotReady = append(s.NotReady, first[h])
		}
	}
	slices.SortFunc(s.Ready, Address.compare)
	slices.SortFunc(s.NotReady, Address.compare)
	return s
}

// hostsKey is equal for equal sets.
func hostsKey(hosts map[host]bool) string {
	keys := make([]string, 0, len(hosts))
	for h, ready := range hosts {
		state := "-"
		if ready {
			state = "+"
		}
		keys = append(keys, state+h.addr.Addr.String()+"/"+h.addr.PodUID)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}
