package oracle

import "fmt"

// put writes the Service and its slices as objects.
func (s *service) put(into map[string]Doc) {
	into["Service default/"+s.name] = s.doc()
	for _, f := range s.families {
		for i := range s.targets {
			if d := s.sliceDoc(f, i); d != nil {
				into["EndpointSlice default/"+s.sliceName(f, i)] = d
			}
		}
	}
}

func (s *service) sliceName(family string, i int) string {
	return fmt.Sprintf("%s-%s-%d", s.name, family[2:], i)
}

// portName is what the API calls the port: one alone needs no name.
func (s *service) portName(p port) string {
	if len(s.ports) == 1 {
		return ""
	}
	return p.name
}

func (s *service) doc() Doc {
	meta, spec := Doc{"name": s.name}, Doc{"type": s.kind, "ipFamilies": list(s.families), "ports": s.portDocs()}
	d := Doc{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
	if s.proxyName {
		meta["labels"] = Doc{"service.kubernetes.io/service-proxy-name": "another"}
	}
	if s.kind == "" {
		spec["type"], spec["clusterIP"] = "ClusterIP", "None"
		return d
	}
	var ips []string
	for _, f := range s.families {
		if f == "IPv6" {
			ips = append(ips, fmt.Sprintf("fd00:96::%x", 16+s.n))
		} else {
			ips = append(ips, fmt.Sprintf("10.96.0.%d", 16+s.n))
		}
	}
	spec["clusterIP"], spec["clusterIPs"] = ips[0], list(ips)
	if s.internalLocal {
		spec["internalTrafficPolicy"] = "Local"
	}
	if s.affinity {
		spec["sessionAffinity"] = "ClientIP"
	}
	if len(s.externalIPs) > 0 {
		spec["externalIPs"] = list(s.externalIPs)
	}
	if s.externalLocal && (s.kind != "ClusterIP" || len(s.externalIPs) > 0) {
		spec["externalTrafficPolicy"] = "Local"
	}
	if s.kind == "LoadBalancer" {
		s.balanced(d, spec)
	}
	return d
}

// balanced writes what only type LoadBalancer has.
func (s *service) balanced(d, spec Doc) {
	spec["loadBalancerClass"] = "example.com/oracle" // podway gives no addresses of its own
	if s.noNodePorts {
		spec["allocateLoadBalancerNodePorts"] = false
	}
	if s.externalLocal {
		spec["healthCheckNodePort"] = 32000 + s.n
	}
	if len(s.ranges) > 0 {
		spec["loadBalancerSourceRanges"] = list(s.ranges)
	}
	var ingress []any
	for _, a := range s.addrs {
		mode := "VIP"
		if a.proxy {
			mode = "Proxy"
		}
		ingress = append(ingress, Doc{"ip": a.addr, "ipMode": mode})
	}
	d["status"] = Doc{"loadBalancer": Doc{"ingress": ingress}}
}

func (s *service) portDocs() (out []any) {
	for _, p := range s.ports {
		d := Doc{"port": p.number, "protocol": p.proto}
		if n := s.portName(p); n != "" {
			d["name"] = n
		}
		if s.kind == "NodePort" || s.kind == "LoadBalancer" && !s.noNodePorts {
			d["nodePort"] = p.nodePort
		}
		out = append(out, d)
	}
	return out
}

// sliceDoc is one slice, or nil when it would be the second and empty.
func (s *service) sliceDoc(family string, i int) Doc {
	var ports, eps []any
	for _, p := range s.ports {
		if t := s.targets[i][p.name]; t != 0 {
			ports = append(ports, Doc{"name": s.portName(p), "protocol": p.proto, "port": t})
		}
	}
	seen := map[int]bool{}
	for _, e := range s.endpoints {
		if e.slice == i && !seen[e.backend] { // an address is in a slice once
			seen[e.backend] = true
			eps = append(eps, s.endpointDoc(family, e))
		}
	}
	if i > 0 && len(eps) == 0 {
		return nil
	}
	return Doc{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family, "ports": ports, "endpoints": eps,
		"metadata": Doc{"name": s.sliceName(family, i), "labels": Doc{"kubernetes.io/service-name": s.name}}}
}

func (s *service) endpointDoc(family string, e endpoint) Doc {
	b := &backends[e.backend]
	d := Doc{"addresses": []any{b.addr(family)}, "zone": zones[b.node]}
	if !e.noNode {
		d["nodeName"] = b.node
	}
	switch e.state {
	case ready:
		d["conditions"] = Doc{"ready": true, "serving": true, "terminating": false}
	case notReady:
		d["conditions"] = Doc{"ready": false, "serving": false, "terminating": false}
	case terminating:
		d["conditions"] = Doc{"ready": false, "serving": true, "terminating": true}
	case terminatingDead:
		d["conditions"] = Doc{"ready": false, "serving": false, "terminating": true}
	}
	zone, node := Doc{"forZones": []any{Doc{"name": zones[b.node]}}}, Doc{"forNodes": []any{Doc{"name": b.node}}, "forZones": []any{Doc{"name": zones[b.node]}}}
	switch {
	case s.hints == "zones", s.hints == "some" && e.backend%2 == 0:
		d["hints"] = zone
	case s.hints == "nodes":
		d["hints"] = node
	}
	return d
}

func list(from []string) (out []any) {
	for _, s := range from {
		out = append(out, s)
	}
	return out
}
