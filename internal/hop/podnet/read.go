package podnet

import (
	"context"
	"errors"

	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
)

// live is what a node has.
type live struct {
	State
	Host  Host
	Veths map[string]link.Link // the host's ends of Pods' links
	Pods  []route.Route        // to this node's Pods, which the CNI plugin made
}

// families of the nftables tables in State.Tables.
var families = [2]nft.Family{nft.IPv4, nft.IPv6}

// read finds podway's own by its marks, and what else there is.
func (h *Hop) read(ctx context.Context) (live, error) {
	l := live{Veths: map[string]link.Link{}}
	if err := errors.Join(h.readLinks(&l), h.readRoutes(&l), h.readTables(ctx, &l)); err != nil {
		return l, err
	}
	var err error
	if l.Neighbours, err = h.doors.neighbours.Neighbours(TunnelDevice); err != nil {
		return l, err
	}
	// A file that cannot be understood is written anew.
	if c, err := ReadNodeConfig(h.opt.ConfigPath); err == nil {
		l.Config = c
	}
	l.State.sort()
	return l, nil
}

func (h *Hop) readLinks(l *live) error {
	all, err := h.doors.links.List()
	if err != nil {
		return err
	}
	for _, d := range all {
		switch {
		case d.Name == TunnelDevice && d.Kind == link.KindVXLAN:
			l.Tunnel = &d
		case isVeth(d):
			l.Veths[d.Name] = d
		default:
			l.Host.Links = append(l.Host.Links, d)
		}
	}
	return nil
}

func (h *Hop) readRoutes(l *live) error {
	all, err := h.doors.routes.Routes()
	if err != nil {
		return err
	}
	for _, r := range all {
		switch {
		case r.Proto != RouteProtocol:
			l.Host.Routes = append(l.Host.Routes, r)
		case isVethName(r.Device):
			l.Pods = append(l.Pods, r)
		default:
			l.Routes = append(l.Routes, r)
		}
	}
	return nil
}

func (h *Hop) readTables(ctx context.Context, l *live) error {
	h.rules.Lock()
	defer h.rules.Unlock()
	for i, f := range families {
		t, err := h.doors.rules.Read(ctx, f, Table)
		if err != nil {
			return err
		}
		l.Tables[i] = t
	}
	return nil
}
