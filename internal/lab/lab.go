// Package lab runs a real Kubernetes cluster on one machine: `podway up`, `down`, `status`, `exec` and `image load`.
// It decides what is to be done and talks to the lab's supervisor, which does it. What is applied to the cluster comes
// from its caller; the cluster's components come from the program podway-lab, known only by its command line.
package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podway/podway/internal/lab/spec"
)

// DefaultDir is where a lab is kept unless told otherwise.
const DefaultDir = "/var/lib/podway-lab"

// DirVariable names the environment variable that tells otherwise.
const DirVariable = "PODWAY_LAB_DIR"

// DefaultPort is the first that is tried for the API server on the host.
const DefaultPort = 16443

// Places are the names that Exec knows besides the nodes'.
const (
	Outside      = "outside"       // a host on the nodes' network that is no node
	Client       = "client"        // a host behind it, in another network
	ControlPlane = "control-plane" // where the API server is
)

// Options are what `podway up` is asked for. Zero values mean the default, or what the lab in Dir has.
type Options struct {
	Dir         string
	Nodes       int
	Kubernetes  string // path of podway-lab
	Networking  string
	ProxyMode   string // of podway's service proxy
	UpstreamDNS string
	Port        int

	OnlyRefresh bool          // load images and apply manifests again, start nothing
	Wait        time.Duration // how long it may take until everything is ready
}

// Manifests makes what is applied to a new cluster, as a YAML stream.
type Manifests func(spec.Cluster) ([]byte, error)

// Exit is the exit code of a program that was run in a namespace.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Misuse is the error of an argument: it names what is not there, or asks for what cannot be changed now.
type Misuse struct{ text string }

func (m *Misuse) Error() string { return m.text }

func misuse(format string, args ...any) error { return &Misuse{fmt.Sprintf(format, args...)} }

// NotStarted is why a program could not be run in a namespace, with the exit code that a shell has for that: 127 when there
// is none, 126 when it cannot be executed.
type NotStarted struct {
	Code int
	Err  error
}

func (n *NotStarted) Error() string { return n.Err.Error() }

// Unwrap returns the cause.
func (n *NotStarted) Unwrap() error { return n.Err }

// lastLines returns the end of a log file, indented, to be shown below an error.
func lastLines(path string, n int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const window = 16 << 10
	if st, err := f.Stat(); err == nil && st.Size() > window {
		_, _ = f.Seek(-window, io.SeekEnd)
	}
	b, err := io.ReadAll(io.LimitReader(f, window))
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	return fmt.Sprintf("\nthe end of %s:\n    %s", path, strings.Join(lines, "\n    "))
}

// beside is the path of a program that is kept in the same folder as podway.
func beside(podway, name string) string { return filepath.Join(filepath.Dir(podway), name) }
