package upstream

import (
	"context"
	"net"
	"net/netip"
)

// dial opens a connection in our network namespace.
func (f *Forwarder) dial(ctx context.Context, network string, to netip.AddrPort) (conn net.Conn, err error) {
	if err := f.o.in(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, to.String())
		return err
	}); err != nil {
		return nil, err
	}
	return conn, nil
}
