package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control/endpointslice"
	"github.com/podway/podway/internal/model"
)

// podway is the running Controller, fed with snapshots as a watch would make them.
type podway struct {
	api   *api
	pods  int
	turn  int
	b     *model.Builder
	in    chan *model.Snapshot
	wrote chan written
	stop  context.CancelFunc
	ended chan error
}

type written struct {
	slice *discoveryv1.EndpointSlice
	at    time.Time
}

func newPodway(n int, a *api) (subject, error) {
	p := &podway{api: a, pods: n, b: model.NewBuilder(nil), in: make(chan *model.Snapshot, 1), wrote: make(chan written, 200), ended: make(chan error, 1)}
	a.wrote = func(s *discoveryv1.EndpointSlice) { p.wrote <- written{s, time.Now()} }
	// Window: two writes of one Service keep a pause, which is not what is measured.
	c := &endpointslice.Controller{Client: a, NoEndpoints: true, Window: 1, QPS: 1e9, Burst: 1e9, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- c.Run(ctx, p.in) }()
	for i := range nodes {
		p.b.Put(cluster.Convert(node(i)))
	}
	for i := range n {
		p.b.Put(cluster.Convert(pod(i, true, 1)))
	}
	p.b.Put(cluster.Convert(service()))
	p.in <- p.b.Snapshot(time.Now())
	for range (n + 99) / 100 {
		w, err := p.next()
		if err != nil {
			return nil, err
		}
		p.b.Put(cluster.Convert(w.slice))
	}
	p.in <- p.b.Snapshot(time.Now())
	return p, nil
}

func (p *podway) next() (written, error) {
	select {
	case w := <-p.wrote:
		return w, nil
	case err := <-p.ended:
		return written{}, err
	case <-time.After(10 * time.Second):
		return written{}, errors.New("podway: nothing was written in 10 s")
	}
}

// flip is the time from the snapshot with the Pod that changed until its slice is written.
func (p *podway) flip() (time.Duration, error) {
	p.turn++
	ready := p.turn%2 == 0
	p.b.Put(cluster.Convert(pod(p.pods/2, ready, p.turn+1)))
	next := p.b.Snapshot(time.Now())
	start := time.Now()
	p.in <- next
	w, err := p.next()
	if err != nil {
		return 0, err
	}
	if err := says(w.slice, p.pods/2, ready); err != nil {
		return 0, fmt.Errorf("podway: %w", err)
	}
	p.api.done()
	p.b.Put(cluster.Convert(w.slice)) // the watch brings it
	p.in <- p.b.Snapshot(time.Now())
	return w.at.Sub(start), nil
}

// close also sees that nothing was written but what was asked for.
func (p *podway) close() error {
	p.stop()
	<-p.ended
	if n := len(p.wrote); n > 0 {
		return fmt.Errorf("podway: %d writes too many", n)
	}
	return nil
}

// says checks that the slice holds the Pod, in that state.
func says(s *discoveryv1.EndpointSlice, i int, ready bool) error {
	for _, e := range s.Endpoints {
		if e.TargetRef != nil && e.TargetRef.Name == fmt.Sprintf("cart-%05d", i) {
			if *e.Conditions.Ready == ready {
				return nil
			}
			return fmt.Errorf("slice %s: Pod %d ready=%t, want %t", s.Name, i, !ready, ready)
		}
	}
	return fmt.Errorf("slice %s does not hold Pod %d", s.Name, i)
}
