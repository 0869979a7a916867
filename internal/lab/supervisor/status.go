// Package supervisor is the lab's daemon: it makes the network, the certificates and the images, keeps the control
// plane and the nodes running, relays the API server to the host, and says how everything is. It owns the processes of
// one lab; what is applied to the cluster is not its business.
package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
)

// Command is podway's hidden subcommand that is the supervisor.
const Command = "lab-supervisor"

// Status is how a lab is.
type Status struct {
	Revision   int              `json:"revision"` // grows with every change
	PID        int              `json:"pid"`
	Started    time.Time        `json:"started"`
	Cluster    spec.Cluster     `json:"cluster"`
	Steps      []Step           `json:"steps"`
	Components []process.Status `json:"components"`
	Nodes      []NodeStatus     `json:"nodes"`
	Outside    string           `json:"outside"` // paths of network namespaces
	Client     string           `json:"client"`
	Control    string           `json:"control"`
	Failed     string           `json:"failed,omitempty"` // why it cannot go on
}

// Step is something that was done on the way up.
type Step struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"`   // since the start
	Took time.Duration `json:"took"` // of it alone, where that is known
}

// NodeStatus is how a node is.
type NodeStatus struct {
	process.Status                  // its first process; PID is the host's
	Services       []process.Status `json:"services"`
	Images         bool             `json:"images"` // it has the lab's images
	Booted         time.Time        `json:"booted,omitzero"`
	Registered     bool             `json:"registered"` // its kubelet reported since then
	Ready          bool             `json:"ready"`
	Reason         string           `json:"reason,omitempty"` // of not being ready
	Error          string           `json:"error,omitempty"`  // of not coming up
}

// Names of steps. A node's are NODE followed by one of the second group.
const (
	StepImages       = "images"
	StepCertificates = "certificates"
	StepNetwork      = "network"

	StepRegistered = "registered"
	StepReady      = "ready"
)

// Done says whether a step is done.
func (s Status) Done(name string) bool {
	for _, st := range s.Steps {
		if st.Name == name {
			return true
		}
	}
	return false
}

// Settled says whether everything runs: the control plane, and every node as far as it can be without a pod network
// (ready, where ready is asked for).
func (s Status) Settled(ready bool) bool {
	if slices.ContainsFunc(s.Components, broken) {
		return false
	}
	for _, n := range s.Nodes {
		if n.State != process.Running || !n.Registered || (ready && !n.Ready) || slices.ContainsFunc(n.Services, broken) || !n.Images {
			return false
		}
	}
	return true
}

func broken(s process.Status) bool { return s.State != process.Running }

// Missing lists what is not as it should be, one sentence each.
func (s Status) Missing(ready bool) []string {
	var out []string
	say := func(who string, st process.Status) {
		text := who + " is " + string(st.State)
		if st.LastExit != "" {
			text += ", last end: " + st.LastExit
		}
		out = append(out, text)
	}
	for _, c := range s.Components {
		if broken(c) {
			say(c.Name, c)
		}
	}
	for _, n := range s.Nodes {
		switch {
		case n.Error != "":
			out = append(out, n.Name+": "+n.Error)
		case n.State != process.Running:
			say(n.Name, n.Status)
		case !n.Images:
			out = append(out, n.Name+" does not have all images yet")
		case !n.Registered:
			out = append(out, n.Name+" is not registered with the API server")
		case ready && !n.Ready:
			out = append(out, n.Name+" is not ready: "+n.Reason)
		}
		for _, sv := range n.Services {
			if broken(sv) {
				say(n.Name+"'s "+sv.Name, sv)
			}
		}
	}
	return out
}

// Restarted lists what had to be started again since the supervisor's start.
func (s Status) Restarted() []string {
	var out []string
	say := func(who string, st process.Status) {
		if st.Restarts > 0 && st.State == process.Running {
			out = append(out, fmt.Sprintf("%s (restarts: %d, last end: %s at %s)", who, st.Restarts, st.LastExit, st.LastTime.Format(time.TimeOnly)))
		}
	}
	for _, c := range s.Components {
		say(c.Name, c)
	}
	for _, n := range s.Nodes {
		say(n.Name, n.Status)
		for _, sv := range n.Services {
			say(n.Name+"'s "+sv.Name, sv)
		}
	}
	return out
}
