package nettest

import (
	"context"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// end is one end of a veth pair.
type end struct {
	host *Host
	dev  string
}

func (w *World) wired(ends ...end) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh = append(w.fresh, ends...)
}

// Settle waits until every device made so far carries packets: the kernel notices a new carrier a little after the device
// is up, and loses what is sent before. Connect and Get do it by themselves.
func (w *World) Settle(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	deadline := time.Now().Add(3 * time.Second)
	for len(w.fresh) > 0 {
		waits, err := w.fresh[0].waits()
		switch {
		case err != nil:
			return err
		case waits == "":
			w.fresh = w.fresh[1:]
			continue
		case time.Now().After(deadline):
			return fmt.Errorf("nettest: host %s: %s: %s", w.fresh[0].host.Name, w.fresh[0].dev, waits)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// waits says what the device waits for before it carries packets; "" when it does.
func (e end) waits() (string, error) {
	l, err := e.host.nl.LinkByName(e.dev)
	if err != nil {
		return "", fmt.Errorf("nettest: host %s: find %s: %w", e.host.Name, e.dev, err)
	}
	if s := l.Attrs().OperState; s != netlink.OperUp {
		return "the device is " + s.String(), nil
	}
	addrs, err := e.host.nl.AddrList(l, netlink.FAMILY_V6)
	if err != nil {
		return "", fmt.Errorf("nettest: host %s: addresses of %s: %w", e.host.Name, e.dev, err)
	}
	for _, a := range addrs {
		if a.Flags&unix.IFA_F_TENTATIVE != 0 {
			return a.IP.String() + " is tentative", nil
		}
	}
	return "", nil
}
