package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/model"
)

// object is a Kubernetes object as JSON.
type object = map[string]any

// answer is what the program of lab/kubeproxy says of a sync.
type answer struct {
	Error  string
	TookNS time.Duration
	CPUNS  time.Duration
}

// measurePeer loads the cluster with kube-proxy and changes it in the same way.
func measurePeer(program string, c *cluster, v kipt.Variant, changes int) (*result, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	cmd := exec.Command(program)
	path, err := tools(v)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(path)
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := ns.Do(cmd.Start); err != nil {
		return nil, err
	}
	defer cmd.Wait()
	defer in.Close()
	enc, dec := json.NewEncoder(in), json.NewDecoder(out)
	ask := func(request object) (took, error) {
		var a answer
		if err := errors.Join(enc.Encode(request), dec.Decode(&a)); err != nil {
			return took{}, err
		}
		if a.Error != "" {
			return took{}, fmt.Errorf("kube-proxy: %s", a.Error)
		}
		return took{a.TookNS, a.CPUNS}, nil
	}
	return talk(c, changes, ask)
}

func talk(c *cluster, changes int, ask func(object) (took, error)) (*result, error) {
	s := c.snapshot()
	node := s.Nodes.At(nodeName)
	_, err := ask(object{"open": object{"mode": "iptables", "node": object{"metadata": object{"name": node.Name},
		"spec":   object{"podCIDR": node.PodCIDRs[0].String(), "podCIDRs": []string{node.PodCIDRs[0].String()}},
		"status": object{"addresses": []object{{"type": "InternalIP", "address": node.Addrs[0].String()}, {"type": "InternalIP", "address": "fd00:1::1"}}}}}})
	if err != nil {
		return nil, err
	}
	var services, slices []object
	for svc := range s.Services.Values() {
		services = append(services, serviceJSON(svc))
	}
	for sl := range s.Slices.Values() {
		slices = append(slices, sliceJSON(sl))
	}
	r := &result{}
	if r.full, err = ask(object{"sync": object{"services": services, "slices": slices}}); err != nil {
		return nil, err
	}
	for i := range changes {
		c.change(i)
		t, err := ask(object{"sync": object{"slices": []object{sliceJSON(c.changed(i))}}})
		if err != nil {
			return nil, err
		}
		r.endpoint = append(r.endpoint, t)
	}
	return r, nil
}

func serviceJSON(s *model.Service) object {
	ip := s.ClusterIPs[0].String()
	return object{"metadata": object{"namespace": s.Name.Namespace, "name": s.Name.Name, "uid": s.Name.Name},
		"spec": object{"type": "ClusterIP", "clusterIP": ip, "clusterIPs": []string{ip}, "ipFamilies": []string{"IPv4"}, "sessionAffinity": "None",
			"ports": []object{{"protocol": "TCP", "port": 80, "targetPort": 8080}}}}
}

func sliceJSON(s *model.EndpointSlice) object {
	var eps []object
	for _, e := range s.Endpoints {
		eps = append(eps, object{"addresses": []netip.Addr{e.Addr}, "nodeName": e.Node, "conditions": object{"ready": true, "serving": true}})
	}
	return object{"metadata": object{"namespace": s.Name.Namespace, "name": s.Name.Name, "labels": object{"kubernetes.io/service-name": s.Service.Name}},
		"addressType": "IPv4", "ports": []object{{"name": "", "protocol": "TCP", "port": 8080}}, "endpoints": eps}
}

// tools makes a folder in which the names of the tools without a variant are those of one.
func tools(v kipt.Variant) (string, error) {
	dir, err := os.MkdirTemp("", "bench-iptables-")
	if err != nil {
		return "", err
	}
	for _, f := range kipt.Families {
		for _, suffix := range []string{"", "-restore", "-save"} {
			real, err := exec.LookPath(f.String() + "-" + string(v) + suffix)
			if err != nil {
				return "", err
			}
			if err := os.Symlink(real, filepath.Join(dir, f.String()+suffix)); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}
