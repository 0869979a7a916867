package arp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/kernel/packet"
)

// run sends later announcements and follows the devices until ctx ends.
func (r *Responder) run(ctx context.Context) {
	changes, again := r.follow(ctx), (<-chan time.Time)(nil)
	rearrange := func() {
		if again = nil; !r.rearrange() {
			again = time.After(arrangeRetry)
		}
	}
	rearrange() // what changed since the devices were looked at and before they were followed is told by nobody
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		case _, ok := <-changes:
			if !ok {
				changes = r.follow(ctx)
			}
			rearrange()
		case <-again:
			rearrange()
		}
		r.mu.Lock()
		next := r.beat(time.Now())
		r.mu.Unlock()
		timer.Reset(time.Until(next))
	}
}

// follow subscribes to changes of the devices. Where that fails it looks again after a while.
func (r *Responder) follow(ctx context.Context) <-chan struct{} {
	ch, err := r.wire.Changes(ctx)
	if err == nil {
		return ch
	}
	if ctx.Err() == nil {
		r.log.Warn("devices are looked at every minute only", "hop", "announce", "err", err)
	}
	later := make(chan struct{})
	time.AfterFunc(refresh, func() { close(later) })
	return later
}

// rearrange reports whether all is as it should be.
func (r *Responder) rearrange() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return true
	}
	err := r.arrange(time.Now())
	if err != nil {
		r.log.Warn("devices changed; will retry", "hop", "announce", "err", err)
	}
	return err == nil
}

// read answers the requests that come in on one device.
func (r *Responder) read(s *socket) {
	for {
		f, err := s.conn.Read()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as the device having gone down; follow sees to it
			time.Sleep(readPause)
		default:
			r.handle(s, f)
		}
	}
}

func (r *Responder) handle(s *socket, f packet.Frame) {
	m, ok := parse(f.Payload)
	if !ok || f.Outgoing || m.senderMAC == s.iface.MAC {
		return
	}
	answers := *r.answers.Load()
	if _, mine := answers[place{s.iface.Index, m.sender}]; mine {
		r.metrics.rival()
		r.rival(m.sender, m.senderMAC)
		return
	}
	if _, mine := answers[place{s.iface.Index, m.target}]; !mine || m.op != opRequest {
		return
	}
	if err := s.conn.Write(m.senderMAC, m.answer(s.iface.MAC).bytes()); err != nil {
		r.log.Warn("ARP reply not sent", "hop", "announce", "addr", m.target.String(), "device", s.iface.Name, "err", err)
		return
	}
	r.metrics.replied()
}

// rival notes that another station claims an address. If it still is this node's in a moment, it is told again: the
// claimant may also be the next owner, who has seen the newest snapshot a little earlier.
func (r *Responder) rival(a netip.Addr, who mac) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.addrs[a]
	if st == nil {
		return
	}
	now := time.Now()
	if st.rivalAt.IsZero() || now.Sub(st.rivalAt) > refresh {
		r.log.Warn("another station claims the address", "hop", "announce", "addr", a.String(), "station", net.HardwareAddr(who[:]).String())
	}
	st.rival, st.rivalAt = net.HardwareAddr(who[:]).String(), now
	if now.Sub(st.defended) < defendGap {
		return
	}
	st.defended = now
	if at := now.Add(doubt); at.Before(st.due) {
		st.due = at
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}
