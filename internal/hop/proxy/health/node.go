package health

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Node is whether this node's proxy follows the cluster, as load balancers (/healthz) and kubelets (/livez) ask it; the
// rules and the answers' fields are kube-proxy's (KEP-3836). It is safe for concurrent use.
type Node struct {
	timeout time.Duration

	mu       sync.Mutex
	queued   time.Time            // when the oldest change came that is not in the rules; zero = none waits
	updated  map[string]time.Time // by address family
	eligible bool                 // the node exists and is not about to go
	answered func(path string, code int)
}

// NewNode returns a proxy that is healthy until a change waits longer than timeout for its rules.
func NewNode(timeout time.Duration) *Node {
	return &Node{timeout: timeout, updated: map[string]time.Time{}, answered: func(string, int) {}}
}

// Answered makes f be told of each answer: "healthz" or "livez", and the status.
func (n *Node) Answered(f func(path string, code int)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answered = f
}

// Queued notes a change that must get into the rules.
func (n *Node) Queued() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.queued.IsZero() {
		n.queued = time.Now()
	}
}

// Updated notes that the rules of the families have all changes.
func (n *Node) Updated(families ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queued = time.Time{}
	for _, f := range families {
		n.updated[f] = time.Now()
	}
}

// SetEligible notes whether load balancers may use the node: it exists, is not being deleted, and no autoscaler is about to
// take it away.
func (n *Node) SetEligible(yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.eligible = yes
}

// Eligible reports whether load balancers may use the node.
func (n *Node) Eligible() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.eligible
}

// Healthy reports whether the rules follow the cluster. A proxy that is starting is healthy.
func (n *Node) Healthy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.healthy()
}

func (n *Node) healthy() bool { return n.queued.IsZero() || time.Since(n.queued) < n.timeout }

// familyState and nodeBody are what /healthz and /livez answer; the fields are kube-proxy's.
type familyState struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

type nodeBody struct {
	LastUpdated  time.Time              `json:"lastUpdated"`
	CurrentTime  time.Time              `json:"currentTime"`
	NodeEligible *bool                  `json:"nodeEligible,omitempty"`
	Healthy      bool                   `json:"healthy"`
	Status       map[string]familyState `json:"status,omitempty"`
}

// state is the answer, and whether the node is eligible.
func (n *Node) state() (nodeBody, bool, func(string, int)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := nodeBody{CurrentTime: time.Now(), Healthy: n.healthy(), Status: map[string]familyState{}}
	for f, at := range n.updated {
		b.Status[f] = familyState{at, b.Healthy}
		if at.After(b.LastUpdated) {
			b.LastUpdated = at
		}
	}
	return b, n.eligible, n.answered
}

// Handler serves /healthz and /livez.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		b, eligible, answered := n.state()
		b.NodeEligible = &eligible
		answer(w, "healthz", b, b.Healthy && eligible, answered)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		b, _, answered := n.state()
		answer(w, "livez", b, b.Healthy, answered)
	})
	return mux
}

func answer(w http.ResponseWriter, path string, b nodeBody, well bool, answered func(string, int)) {
	status := http.StatusServiceUnavailable
	if well {
		// What is well has the time of the answer: clients of old take it for that of the last loop.
		status, b.LastUpdated = http.StatusOK, b.CurrentTime
	}
	answered(path, status)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(b) // the client may be gone
}
