package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// sampled is how many Services are measured in turn; the others change meanwhile.
const sampled = 64

// patience is the longest time that is measured.
const patience = time.Minute

// measure is one round.
func (w *world) measure(ctx context.Context, o options, samples int) error {
	busy, stop := context.WithCancel(ctx)
	type changes struct {
		rate float64
		err  error
	}
	changed := make(chan changes, 1)
	go func() {
		rate, err := w.change(busy, o)
		changed <- changes{rate, err}
	}()
	err := w.sample(ctx, samples)
	stop()
	c := <-changed
	w.rates = append(w.rates, c.rate)
	return errors.Join(err, c.err)
}

// change turns the readiness of Pods over at a steady rate until the context ends, and returns the rate that the cluster
// took: one whose own programs need all of the machine takes fewer.
func (w *world) change(ctx context.Context, o options) (rate float64, err error) {
	tick := time.NewTicker(time.Second / time.Duration(max(o.changes, 1)))
	defer tick.Stop()
	begin, n := time.Now(), 0
	for o.changes > 0 {
		select {
		case <-ctx.Done():
			return float64(n) / time.Since(begin).Seconds(), nil
		case <-tick.C:
		}
		i := sampled + rand.IntN(o.services-sampled)
		w.ready[i] = !w.ready[i]
		if err := w.setReady(ctx, i, w.ready[i]); err != nil && ctx.Err() == nil {
			return 0, err
		}
		n++
	}
	return 0, nil
}

// sample makes one Pod after the other unready, waits until its Service refuses, and measures from the write that makes it
// Ready to the first connection.
func (w *world) sample(ctx context.Context, n int) error {
	for range n {
		i := rand.IntN(sampled)
		if err := w.setReady(ctx, i, false); err != nil {
			return err
		}
		if err := eventually(ctx, 3*patience, func() error {
			if err := w.connect(i); !errors.Is(err, syscall.ECONNREFUSED) {
				return fmt.Errorf("Service %s without a Ready Pod: %v, want refused", nameOf(i), err)
			}
			return nil
		}); err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond) // no side is met at the same point of its period
		begin := time.Now()
		if err := w.setReady(ctx, i, true); err != nil {
			return err
		}
		w.writes = append(w.writes, time.Since(begin))
		err := eventually(ctx, patience, func() error { return w.connect(i) })
		if ctx.Err() != nil {
			return err
		}
		if err != nil { // it counts as if it had answered now
			fmt.Fprintf(os.Stderr, "%s: %s: %v\n", w.name, nameOf(i), err)
		}
		w.took = append(w.took, time.Since(begin))
	}
	fmt.Fprintf(os.Stderr, "%s: p50 so far %.1f ms\n", w.name, ms(percentile(w.took, 50)))
	return nil
}

// connect asks once, from node-1, over a new connection.
func (w *world) connect(i int) error {
	return w.node.Do(func() error {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(w.addrs[i], 80).String(), 200*time.Millisecond)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

func eventually(ctx context.Context, within time.Duration, ask func() error) error {
	for end := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		err := ask()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %s: %w", within, err)
		}
	}
}
