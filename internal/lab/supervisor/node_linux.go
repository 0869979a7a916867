package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/podway/podway/internal/lab/api"
	"github.com/podway/podway/internal/lab/node"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
)

// keepNode keeps a node running until ctx ends.
func (s *supervisor) keepNode(ctx context.Context, n spec.Node) {
	sv := &process.Service{
		Name: n.Name, Log: s.cluster.Log(n.Name),
		Start: func() (process.Process, error) { return s.startNode(ctx, n) },
		Ready: func(ctx context.Context) error {
			return s.wait(ctx, func(st Status) bool { return st.runs(n.Name, node.StepKubelet) })
		},
	}
	sv.OnChange(func(st process.Status) { s.node(n.Name, func(ns *NodeStatus) { ns.Status = st }) })
	s.workers.Go(func() { sv.Run(ctx) })
}

// runs says whether a service of a node runs.
func (s Status) runs(name, service string) bool {
	for _, n := range s.Nodes {
		if n.Name != name {
			continue
		}
		for _, sv := range n.Services {
			if sv.Name == service {
				return sv.State == process.Running
			}
		}
	}
	return false
}

// startNode boots a node like a machine: whatever was left of its former life is taken away first.
func (s *supervisor) startNode(ctx context.Context, n spec.Node) (process.Process, error) {
	s.node(n.Name, func(ns *NodeStatus) { ns.boots() })
	group := node.Group(s.cgroups, s.cluster, n.Name)
	cleanCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := group.Kill(cleanCtx); err != nil {
		return process.Process{}, err
	}
	if err := group.Remove(cleanCtx); err != nil {
		return process.Process{}, err
	}
	if _, err := group.Create(); err != nil {
		return process.Process{}, err
	}
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		return process.Process{}, fmt.Errorf("lab: %w", err)
	}
	ns, err := s.network.AddNode(n)
	if err != nil {
		return process.Process{}, err
	}
	defer ns.Close() // the node holds it now
	r, w, err := os.Pipe()
	if err != nil {
		return process.Process{}, fmt.Errorf("lab: %w", err)
	}
	defer w.Close()
	p, err := s.reaper.Start(process.Command{
		Path: "/proc/self/exe", Args: []string{node.BootCommand, s.cluster.Dir, strconv.Itoa(index(s.cluster, n))},
		Env: os.Environ(), Log: s.cluster.Log(n.Name), Pipe: w, In: ns, New: node.Spaces,
	})
	if err != nil {
		r.Close()
		return process.Process{}, err
	}
	go func() {
		defer r.Close()
		node.ReadEvents(r, func(e node.Event) { s.nodeEvent(n.Name, e) })
	}()
	return p, nil
}

// boots forgets what was known of its former life.
func (ns *NodeStatus) boots() {
	ns.Services, ns.Error, ns.Booted = nil, "", time.Now()
	ns.Images, ns.Registered, ns.Ready = false, false, false
}

func index(c spec.Cluster, n spec.Node) int {
	for i := range c.Nodes {
		if c.Node(i+1).Name == n.Name {
			return i + 1
		}
	}
	return 0
}

func (s *supervisor) nodeEvent(name string, e node.Event) {
	switch {
	case e.Error != "":
		slog.Error("node does not come up", "node", name, "error", e.Error)
		s.node(name, func(ns *NodeStatus) { ns.Error = e.Error })
	case e.Service != nil:
		if e.Service.State == process.Down {
			slog.Warn("process ended", "node", name, "process", e.Service.Name, "exit", e.Service.LastExit)
		}
		s.node(name, func(ns *NodeStatus) { ns.Services = put(ns.Services, *e.Service) })
	case e.Step != "":
		if e.Step == node.StepImages {
			s.node(name, func(ns *NodeStatus) { ns.Images = true })
		}
		s.step(name+" "+e.Step, e.Took)
	}
}

const (
	watchFast = 100 * time.Millisecond // while something is missing
	watchSlow = 2 * time.Second
)

// watchNodes follows the nodes' readiness as the API server knows it, and routes to their pods.
func (s *supervisor) watchNodes(ctx context.Context) {
	routed := map[string]string{}
	for ctx.Err() == nil {
		settled := s.lookAtNodes(ctx, routed)
		pause := watchSlow
		if !settled {
			pause = watchFast
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

func (s *supervisor) lookAtNodes(ctx context.Context, routed map[string]string) bool {
	askCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	nodes, err := s.client.Nodes(askCtx)
	if err != nil {
		return false
	}
	before, _ := s.read()
	ours := map[string]int{}
	for i := range spec.MaxNodes {
		ours[s.cluster.Node(i+1).Name] = i
	}
	for _, n := range nodes {
		switch i, ok := ours[n.Name]; {
		case ok && i < s.cluster.Nodes:
			s.routeTo(s.cluster.Node(i+1), n.PodCIDR, routed)
			s.noteNode(n, before.Nodes[i])
		case ok: // the lab was larger once
			if err := s.client.DeleteNode(askCtx, n.Name); err != nil {
				slog.Warn("cannot remove a former node", "node", n.Name, "error", err)
			}
		}
	}
	now, _ := s.read()
	return now.Settled(s.cluster.Networking != spec.NetworkingNone)
}

// noteNode takes over what the API server knows of a node, if that is about its present life.
func (s *supervisor) noteNode(n api.Node, have NodeStatus) {
	if n.Seen.Before(have.Booted.Truncate(time.Second)) { // the API counts whole seconds
		return
	}
	if !have.Registered || have.Ready != n.Ready || have.Reason != n.Reason {
		s.node(n.Name, func(ns *NodeStatus) { ns.Registered, ns.Ready, ns.Reason = true, n.Ready, n.Reason })
	}
	s.step(n.Name+" "+StepRegistered, 0)
	if n.Ready {
		s.step(n.Name+" "+StepReady, 0)
	}
}

// routeTo sends a node's share of the pod network to it.
func (s *supervisor) routeTo(n spec.Node, podCIDR string, routed map[string]string) {
	if podCIDR == "" || routed[n.Name] == podCIDR {
		return
	}
	if err := s.network.RoutePods(podCIDR, n); err != nil {
		slog.Warn("cannot route to pods; will retry", "node", n.Name, "error", err)
		return
	}
	routed[n.Name] = podCIDR
}
