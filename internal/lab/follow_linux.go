package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podway/podway/internal/lab/controlplane"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

// hopeless is after how many ends in a row `podway up` says that a component does not come up.
const hopeless = 3

// follow prints steps from the printed-th on, applies the manifests when there is an API server, and waits until
// everything runs.
func (u *up) follow(ctx context.Context, printed int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	podway, mode := u.cluster.Networking == spec.NetworkingPodway, u.cluster.ProxyMode
	applied := make(chan error, 1)
	applying := false
	for revision := -1; ; {
		st, err := u.remote.Status(ctx, revision)
		if err != nil {
			err = u.why(ctx, st, err)
			if applying && ctx.Err() != nil { // it ends now, and knows what the pods say
				err = errors.Join(err, <-applied)
			}
			return err
		}
		revision, st.Cluster.ProxyMode = st.Revision, mode // the supervisor knows the one that it was started with
		for ; printed < len(st.Steps); printed++ {
			u.sayStep(st, st.Steps[printed])
		}
		if err := u.trouble(st); err != nil {
			return err
		}
		if !applying && podway && u.manifests != nil && st.Done(controlplane.APIServer) {
			applying = true
			u.cluster = st.Cluster
			go func() {
				err := u.apply(ctx)
				if err != nil {
					cancel(err) // there is nothing to wait for any more
				}
				applied <- err
			}()
		}
		if st.Settled(podway) && alive(st) {
			u.cluster = st.Cluster
			break
		}
	}
	if applying {
		if err := u.await(ctx, applied); err != nil {
			return err
		}
	}
	u.say("cluster is up: %d nodes", u.cluster.Nodes)
	return nil
}

// await waits for the manifests' pods as long as there is a cluster that they could run in.
func (u *up) await(ctx context.Context, applied <-chan error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-applied:
			return err
		case <-tick.C:
		}
		if st, err := u.remote.Status(ctx, -1); errors.Is(err, supervisor.ErrGone) {
			return u.why(ctx, st, err)
		}
	}
}

// alive looks for itself whether the first processes live: a killed node takes the kernel a second to clear away, and
// its supervisor hears of it only then.
func alive(st supervisor.Status) bool {
	for _, c := range st.Components {
		if ended(c.PID) {
			return false
		}
	}
	for _, n := range st.Nodes {
		if ended(n.PID) {
			return false
		}
	}
	return true
}

func ended(pid int) bool {
	state := procStatus(pid, "State:")
	return state == "" || state[0] == 'Z' || state[0] == 'X'
}

// sayStep prints a step at the time when it happened, which may be before it was heard of.
func (u *up) sayStep(st supervisor.Status, s supervisor.Step) {
	at := st.Started.Add(s.At).Sub(u.began)
	text := s.Name
	if s.Took > 0 {
		text += fmt.Sprintf(" (%.2f s)", s.Took.Seconds())
	}
	fmt.Fprintf(u.out, "%6.2fs  %s\n", at.Seconds(), text)
}

// trouble finds what will not come up however long one waits.
func (u *up) trouble(st supervisor.Status) error {
	if st.Failed != "" {
		return fmt.Errorf("%s%s\nafter mending it: podway down, then podway up", st.Failed, lastLines(st.Cluster.Log("supervisor"), 8))
	}
	for _, c := range st.Components {
		if c.State == process.Down && c.InRow >= hopeless {
			return fmt.Errorf("lab: %s does not come up: %s%s", c.Name, c.LastExit, lastLines(c.Log, 12))
		}
	}
	for i, n := range st.Nodes {
		if n.State == process.Down && n.InRow >= hopeless {
			return fmt.Errorf("lab: %s does not come up: %s: %s%s", n.Name, n.LastExit, n.Error, lastLines(n.Log, 12))
		}
		for _, s := range n.Services {
			if s.State == process.Down && s.InRow >= hopeless {
				return fmt.Errorf("lab: %s on %s does not come up: %s%s", s.Name, n.Name, s.LastExit,
					lastLines(u.cluster.Node(i+1).Log(s.Name), 12))
			}
		}
	}
	return nil
}

// why explains the end of waiting.
func (u *up) why(ctx context.Context, last supervisor.Status, err error) error {
	if errors.Is(err, supervisor.ErrGone) {
		return fmt.Errorf("lab: the supervisor ended%s", lastLines(u.cluster.Log("supervisor"), 12))
	}
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	if errors.Is(cause, context.Canceled) {
		return errors.New("lab: interrupted; what was started goes on: podway status, or podway down")
	}
	ask, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if st, e := u.remote.Status(ask, -1); e == nil {
		last = st
	}
	for _, m := range last.Missing(last.Cluster.Networking != spec.NetworkingNone) {
		cause = fmt.Errorf("%w\n%s", cause, m)
	}
	return fmt.Errorf("%w\nlogs are in %s", cause, u.cluster.Log("*"))
}
