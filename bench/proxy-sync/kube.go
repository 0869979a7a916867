package main

import (
	"context"
	"errors"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/nettest/kubeproxy"
)

// measureKube starts kube-proxy on a host of its own, loads a cluster and changes one endpoint after another. It is given
// up when a sync takes longer than limit.
func measureKube(ctx context.Context, program, mode string, s size, limit time.Duration) (f figures, err error) {
	net, err := nettest.New()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	host, err := net.AddNode(nodeName, 0)
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := kubeproxy.Open{Mode: mode, Node: thisNode()}
	for _, r := range serviceCIDRs {
		o.ServiceCIDRs = append(o.ServiceCIDRs, r.String())
	}
	p, err := kubeproxy.Start(ctx, host, program, o)
	if err != nil {
		return f, err
	}
	k := &asked{p: p, limit: limit, kill: cancel}
	f, err = k.measure(s)
	if k.late {
		f, err = figures{Late: limit}, nil
	}
	_ = p.Stop(time.Second) // it may be dead already
	return f, err
}

// asked is kube-proxy's process and the patience with it.
type asked struct {
	p     *kubeproxy.Process
	limit time.Duration
	kill  func()
	late  bool
}

func (k *asked) measure(s size) (f figures, err error) {
	everything := &kubeproxy.Sync{}
	for i := range s.services {
		everything.Services = append(everything.Services, service(i))
		everything.Slices = append(everything.Slices, slice(i, s.endpoints, 0))
	}
	t, err := k.sync(everything)
	if err != nil {
		return f, err
	}
	f.Full, f.FullCPU = t.Wall, t.CPU
	for round := 1; round <= mostKube; round++ {
		one := &kubeproxy.Sync{Slices: []*discoveryv1.EndpointSlice{slice(changed(round, s.services), s.endpoints, round)}}
		if t, err = k.sync(one); err != nil {
			return f, err
		}
		f.Changes = append(f.Changes, t.Wall)
	}
	f.RSSKiB = t.RSSKiB
	return f, nil
}

func (k *asked) sync(s *kubeproxy.Sync) (kubeproxy.Took, error) {
	t := time.AfterFunc(k.limit, k.kill)
	took, err := k.p.Sync(s)
	k.late = !t.Stop()
	return took, err
}
