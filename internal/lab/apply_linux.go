package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/lab/api"
	"github.com/podway/podway/internal/lab/pki"
)

// apply applies what belongs into the cluster, and waits until its pods run.
func (u *up) apply(ctx context.Context) error {
	manifests, err := u.manifests(u.cluster)
	if err != nil {
		return fmt.Errorf("lab: manifests: %w", err)
	}
	objects, err := api.Parse(manifests)
	if err != nil {
		return fmt.Errorf("lab: manifests: %w", err)
	}
	stampImages(u.cluster, objects)
	client, err := api.New(u.cluster.HostServer(), u.cluster.PKI(), pki.Admin, nil)
	if err != nil {
		return err
	}
	applied, err := client.Apply(ctx, objects)
	if err != nil {
		return err
	}
	u.say("manifests applied (%d objects)", len(applied))
	waitCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go u.watchPods(waitCtx, client, namespaces(applied), cancel)
	if err := client.WaitRolledOut(waitCtx, applied, u.cluster.Nodes); err != nil {
		if ctx.Err() == nil && waitCtx.Err() != nil {
			return context.Cause(waitCtx) // what watchPods found
		}
		return fmt.Errorf("%w%s", err, unready(client, namespaces(applied)))
	}
	u.say("podway's pods are ready")
	return nil
}

// namespaces lists where the applied workloads run.
func namespaces(applied []api.Applied) []string {
	var out []string
	for _, a := range applied {
		if ns := a.Namespace(); a.IsWorkload() && !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	return out
}

// watchPods ends the waiting when a container of ours ends again and again, and says what it said.
func (u *up) watchPods(ctx context.Context, client *api.Client, namespaces []string, give func(error)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before := restarts{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, ns := range namespaces {
			stuck, err := client.StuckContainers(ctx, ns)
			if err != nil {
				continue
			}
			for _, s := range stuck {
				if before.since(s) >= hopeless {
					give(errors.New("lab: " + describe(ctx, client, s)))
					return
				}
			}
		}
	}
}

// restarts is how often containers had ended when they were first looked at: pods outlive `podway down`, and their count
// says nothing of this start.
type restarts map[string]int

// since is how often the container ended since then.
func (r restarts) since(s api.Stuck) int {
	key := s.Namespace + "/" + s.Pod + "/" + s.Container
	first, seen := r[key]
	if !seen {
		first = s.Restarts
		r[key] = first
	}
	return s.Restarts - first
}

// unready says of every container that is not ready what it said.
func unready(client *api.Client, namespaces []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the time to wait is over
	defer cancel()
	var text strings.Builder
	for _, ns := range namespaces {
		stuck, _ := client.StuckContainers(ctx, ns)
		for _, s := range stuck {
			text.WriteString("\n" + describe(ctx, client, s))
		}
	}
	return text.String()
}

// describe says what is known of a container that does not come up, with the end of its log.
func describe(ctx context.Context, client *api.Client, s api.Stuck) string {
	text := s.String()
	if log, err := client.Logs(ctx, s, 10); err == nil && log != "" {
		text += "\nits log ends with:\n    " + strings.ReplaceAll(log, "\n", "\n    ")
	}
	return text
}
