// Package demo plays a user of `podway up`: it starts the cluster, sends requests through every path, prints the trace
// and tears down. It only runs podway's own commands; the end-to-end tests use the same paths and break them on purpose.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/podway/podway/examples"
)

// Options are what `podway demo` is asked for.
type Options struct {
	Podway string // the podway program; echo and podway-lab are beside it
	Dir    string // of the lab; it must not hold a lab that somebody uses
	Nodes  int
	Mode   string // of the service proxy; "" = its default
	Keep   bool   // leave the cluster running
	Out    io.Writer
}

// ErrNotArrived says that at least one request did not arrive; which one was printed.
var ErrNotArrived = errors.New("demo: not every request arrived")

// Run starts a cluster, sends requests through every path, prints a trace, and tears down unless o.Keep is set.
func Run(ctx context.Context, o Options) (err error) {
	u := &user{podway: o.Podway, dir: o.Dir, out: o.Out}
	start := time.Now()
	if !o.Keep {
		defer func() {
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // also after ^C
			defer stop()
			err = errors.Join(err, u.show(ctx, "down", "--delete"))
		}()
	}
	if err := u.show(ctx, "up", "--nodes", fmt.Sprint(o.Nodes), "--proxy-mode", o.Mode); err != nil {
		return err
	}
	mode, err := u.sameMode(ctx)
	if err != nil {
		return err
	}
	u.say("\nthe rules on every node are those of proxy mode %s", mode)
	w, err := prepare(ctx, u)
	if err != nil {
		return err
	}
	failed := w.tryAll(ctx, paths())
	if err := w.printTraces(ctx); err != nil {
		failed++
		u.say("%v", err)
	}
	u.say("\n%d paths, %d failed, %.1f s in all, proxy mode %s", len(paths()), failed, time.Since(start).Seconds(), mode)
	if o.Keep {
		u.sayHow()
	}
	if failed > 0 {
		return ErrNotArrived
	}
	return nil
}

// sayHow says how to reach the cluster that is kept, and how to end it.
func (u *user) sayHow() {
	u.say(`
The cluster runs on. As root, for the commands above and all others:
  export PODWAY_LAB_DIR=%s KUBECONFIG=%s
  podway kubectl -n %s get pods
  podway doctor
To end it and delete its data:
  podway down --delete --dir %s`, u.dir, filepath.Join(u.dir, "kubeconfig"), namespace, u.dir)
}

// prepare applies the demo's objects, waits until they are ready and learns their addresses.
func prepare(ctx context.Context, u *user) (*world, error) {
	u.say("\ndeploying the demo: two echo servers, one alone, a client on each node, an Ingress with TLS")
	cert, err := selfSigned(shopHost, grpcHost)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if _, err := u.kubectlIn(ctx, append(append([]byte{}, examples.Demo...), cert.secret()...), "apply", "-f", "-"); err != nil {
		return nil, err
	}
	for _, what := range []string{"deployment/echo", "deployment/solo", "daemonset/client", "daemonset/node-client"} {
		if _, err := u.kubectl(ctx, "-n", namespace, "rollout", "status", "--timeout=90s", what); err != nil {
			return nil, err
		}
	}
	w, err := learn(ctx, u)
	if err == nil {
		u.say("ready in %.1f s: LoadBalancer address of the Ingress %s, of echo-lb %s", time.Since(start).Seconds(), w.ingressIP, w.lbIP)
	}
	return w, err
}

// tryAll tries each path and prints one line for it; it returns how many failed.
func (w *world) tryAll(ctx context.Context, list []path) (failed int) {
	w.user.say("\nrequests through every path")
	for _, p := range list {
		start := time.Now()
		got, err := w.try(ctx, p)
		took := time.Since(start).Round(time.Millisecond)
		if err != nil {
			failed++
			w.user.say("  FAIL %-58s %v", p.name, err)
			continue
		}
		w.user.say("  ok   %-58s %s (%s)", p.name, got, took)
	}
	return failed
}

// try gives a path a few seconds: the address of a new LoadBalancer Service takes a moment to be announced.
func (w *world) try(ctx context.Context, p path) (got string, err error) {
	for deadline := time.Now().Add(10 * time.Second); ; {
		if got, err = p.run(ctx, w); err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return got, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// printTraces shows the way of two requests as podway trace explains it; both must be whole.
func (w *world) printTraces(ctx context.Context) error {
	for _, args := range [][]string{
		{"trace", "-n", namespace, "--from", "pod/" + w.clients[0].Name, "--to", "http://echo/", "--probe"},
		{"trace", "-n", namespace, "--from", "outside=" + clientAddress, "--to", "https://" + shopHost + "/solo/x"},
	} {
		w.user.say("\n$ podway %s", join(args))
		if err := w.user.show(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
