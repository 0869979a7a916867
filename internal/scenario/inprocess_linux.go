package scenario

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/trace"
)

// running is what runs a node's hops: a process in the node's namespace, or goroutines of this one.
type running interface {
	Stop(grace time.Duration) error
	Stderr() string
}

// inside runs NodeMain in this process, for machines on which starting a program is what costs most.
type inside struct {
	in   *io.PipeWriter
	done chan struct{}
}

// startInside opens the hops of a host's namespace from here.
func startInside(ctx context.Context, h *nettest.Host, open NodeHops) (*inside, *json.Encoder, *json.Decoder) {
	in, toNode := io.Pipe()
	fromNode, out := io.Pipe()
	p := &inside{in: toNode, done: make(chan struct{})}
	var opened []hop.Hop
	go func() {
		defer close(p.done)
		NodeMain(ctx, in, out, func(o NodeOptions) (hops []hop.Hop, err error) {
			o.Netns = h.NS().Path()
			opened, err = open(o)
			return opened, err
		})
		out.Close()
		for _, h := range opened {
			if h.Name() == trace.HopName || h.Name() == trace.HopAnnounce {
				_ = h.Remove(context.WithoutCancel(ctx)) // sockets, which would end with a process
			}
		}
	}()
	return p, json.NewEncoder(toNode), json.NewDecoder(fromNode)
}

// Stop ends the goroutines.
func (p *inside) Stop(time.Duration) error {
	p.in.Close()
	<-p.done
	return nil
}

// Stderr is empty: what the hops log is this process's.
func (p *inside) Stderr() string { return "" }

// killed reports whether the file has processes killed, or kept from writing: then they must be processes.
func (f *File) killed() bool {
	for _, s := range f.Steps {
		if len(s.State.Restart)+len(s.State.Failing) > 0 {
			return true
		}
	}
	return false
}
