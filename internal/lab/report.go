package lab

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/podway/podway/internal/lab/spec"
)

// Row is one process of the lab.
type Row struct {
	Where    string `json:"where"` // control-plane, or the node
	Name     string `json:"name"`
	State    string `json:"state"`
	PID      int    `json:"pid,omitempty"`    // the host's
	Memory   int64  `json:"memory,omitempty"` // resident, in bytes
	Restarts int    `json:"restarts"`
	LastExit string `json:"lastExit,omitempty"`
}

// Report is how a lab is.
type Report struct {
	Dir        string    `json:"dir"`
	Running    bool      `json:"running"`            // a supervisor answers
	Leftover   int       `json:"leftover,omitempty"` // processes without a supervisor
	Since      time.Time `json:"since,omitzero"`
	Kubeconfig string    `json:"kubeconfig,omitempty"`
	Server     string    `json:"server,omitempty"`
	Rows       []Row     `json:"processes,omitempty"`
	Missing    []string  `json:"missing,omitempty"` // what is not as it should be
	Memory     int64     `json:"memory,omitempty"`  // of all processes, pods included
}

// Kubectl returns how to run kubectl for the lab in dir: the program, its arguments before the user's, and what to add
// to the environment.
func Kubectl(dir string) (program string, args, env []string, err error) {
	c, err := spec.Load(dir)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w; start one with: podway up", err)
	}
	return c.Kubernetes, []string{"kubectl"}, []string{
		"KUBECONFIG=" + c.Kubeconfig(),
		"KUBECACHEDIR=" + filepath.Join(c.Dir, "kubectl-cache"), // nothing is written outside the lab's folder
	}, nil
}
