package node

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/podway/podway/internal/lab/process"
)

// Event is what a node's first process tells the supervisor, one line of JSON each.
type Event struct {
	Step    string          `json:"step,omitempty"` // something that is done
	Took    time.Duration   `json:"took,omitempty"`
	Service *process.Status `json:"service,omitempty"` // a change of one of its processes
	Error   string          `json:"error,omitempty"`   // why the node cannot go on
}

// Steps of a node, in order.
const (
	StepContainerd = "containerd"
	StepImages     = "images"
	StepKubelet    = "kubelet"
)

// ReadEvents calls f for every event until the other end closes.
func ReadEvents(r io.Reader, f func(Event)) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		var e Event
		if json.Unmarshal(s.Bytes(), &e) == nil {
			f(e)
		}
	}
}

// events writes to the supervisor. When that is gone, nobody listens, and the node goes on.
type events struct {
	mu sync.Mutex
	to *os.File
}

func (e *events) send(ev Event) {
	b, err := json.Marshal(ev)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.to.Write(append(b, '\n'))
}
