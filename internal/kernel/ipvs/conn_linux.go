package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// Conn talks to the IPVS of one network namespace. It is not safe for concurrent use.
type Conn struct {
	device string
	genl   *netlink.Conn
	family uint16
	rt     *vnl.Handle
	index  int // of the device; 0 = not known
}

// remedy is what to do about a kernel without IPVS.
const remedy = "the kernel has no IPVS: load the modules ip_vs, ip_vs_rr and so on (modprobe ip_vs), or use another proxy mode"

// Open opens the door of a namespace, nil is the caller's own, with the device of the given name. A kernel without IPVS is
// errors.ErrUnsupported.
func Open(ns *netns.NS, device string) (*Conn, error) {
	c := &Conn{device: device}
	if err := c.open(ns); err != nil {
		c.Close()
		return nil, fmt.Errorf("ipvs: open: %w", err)
	}
	return c, nil
}

func (c *Conn) open(ns *netns.NS) (err error) {
	cfg := &netlink.Config{}
	if ns != nil {
		cfg.NetNS = ns.Fd()
	}
	if c.genl, err = netlink.Dial(unix.NETLINK_GENERIC, cfg); err != nil {
		return err
	}
	if c.family, err = c.lookUp(); err != nil {
		return err
	}
	handle := func() (err error) {
		c.rt, err = vnl.NewHandle(unix.NETLINK_ROUTE)
		return err
	}
	if ns != nil {
		return ns.Do(handle)
	}
	return handle()
}

// lookUp asks for the number of the netlink family, which makes the kernel load the module. Without it every message would
// go to family 0, which acknowledges anything and does nothing.
func (c *Conn) lookUp() (uint16, error) {
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.CTRL_ATTR_FAMILY_NAME, "IPVS")
	b, err := ae.Encode()
	if err != nil {
		return 0, err
	}
	msgs, err := c.genl.Execute(message(unix.GENL_ID_CTRL, netlink.Request, unix.CTRL_CMD_GETFAMILY, 1, b))
	if errors.Is(err, unix.ENOENT) {
		return 0, fmt.Errorf("%w: %s", errors.ErrUnsupported, remedy)
	}
	if err != nil {
		return 0, fmt.Errorf("look up netlink family IPVS: %w", err)
	}
	for _, m := range msgs {
		ad, err := attributes(m)
		if err != nil {
			return 0, err
		}
		for ad.Next() {
			if ad.Type() == unix.CTRL_ATTR_FAMILY_ID {
				return ad.Uint16(), nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %s", errors.ErrUnsupported, remedy)
}

// Close closes the door; nothing in the kernel changes.
func (c *Conn) Close() error {
	if c.rt != nil {
		c.rt.Close()
	}
	if c.genl == nil {
		return nil
	}
	return c.genl.Close()
}

// message puts the header of generic netlink before attributes.
func message(family uint16, flags netlink.HeaderFlags, cmd, version uint8, attrs []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(family), Flags: flags},
		Data:   append([]byte{cmd, version, 0, 0}, attrs...),
	}
}

func attributes(m netlink.Message) (*netlink.AttributeDecoder, error) {
	if len(m.Data) < 4 {
		return nil, errors.New("cut off answer")
	}
	return netlink.NewAttributeDecoder(m.Data[4:])
}

// together is how many operations are sent before their answers are read; a socket's buffer must hold the answers.
const together = 64

// Apply implements Kernel.
func (c *Conn) Apply(ctx context.Context, ops []Op) error {
	for len(ops) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if k := ops[0].Kind; k <= DelAddr {
			if err := c.applyDevice(ops[0]); err != nil {
				return fmt.Errorf("ipvs: %s: %w", ops[0], err)
			}
			ops = ops[1:]
			continue
		}
		n := 0
		for n < len(ops) && n < together && ops[n].Kind > DelAddr {
			n++
		}
		if err := c.send(ops[:n]); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// send has the kernel carry out some operations on servers. It goes on after one that fails, so the first failure is told
// and the caller takes the state for unknown.
func (c *Conn) send(ops []Op) error {
	msgs := make([]netlink.Message, len(ops))
	for i, op := range ops {
		b, err := encode(op)
		if err != nil {
			return fmt.Errorf("ipvs: %s: %w", op, err)
		}
		msgs[i] = message(c.family, netlink.Request|netlink.Acknowledge, op.command(), version, b)
	}
	if _, err := c.genl.SendMessages(msgs); err != nil {
		return fmt.Errorf("ipvs: send: %w", err)
	}
	var failed error
	for i := range ops {
		if _, err := c.genl.Receive(); err != nil && failed == nil {
			failed = fmt.Errorf("ipvs: %s: %w", ops[i], explain(ops[i], err))
		}
	}
	return failed
}

// explain says what an errno means here.
func explain(op Op, err error) error {
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%w: %w", ErrExist, err)
	case errors.Is(err, unix.ENOENT) && (op.Kind == AddServer || op.Kind == SetServer):
		return fmt.Errorf("%w: no scheduler %s: load the module ip_vs_%s", errors.ErrUnsupported, op.Server.Scheduler, op.Server.Scheduler)
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: %w", ErrNotExist, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (CAP_NET_ADMIN in the namespace is needed)", err)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("%w: %w: the kernel's IPVS lacks the protocol or IPv6", errors.ErrUnsupported, err)
	}
	return err
}

// Read implements Kernel.
func (c *Conn) Read(ctx context.Context) (*State, error) {
	s := NewState()
	if err := c.readDevice(s); err != nil {
		return nil, fmt.Errorf("ipvs: read: %w", err)
	}
	msgs, err := c.genl.Execute(message(c.family, netlink.Request|netlink.Dump, cmdGetService, version, nil))
	if err != nil {
		return nil, fmt.Errorf("ipvs: list servers: %w", err)
	}
	for _, m := range msgs {
		srv, err := decodeServer(m)
		if err != nil {
			return nil, fmt.Errorf("ipvs: list servers: %w", err)
		}
		if srv == nil {
			continue // for packets with a mark
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := c.dests(srv); err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("ipvs: list destinations of %s: %w", srv.Key, err)
		}
		s.Servers[srv.Key] = srv
	}
	return s, nil
}

// Look implements Kernel.
func (c *Conn) Look(_ context.Context, k Key) (*Server, error) {
	b, err := encodeKey(k)
	if err != nil {
		return nil, err
	}
	msgs, err := c.genl.Execute(message(c.family, netlink.Request, cmdGetService, version, b))
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil || len(msgs) == 0 {
		return nil, fmt.Errorf("ipvs: get server %s: %w", k, err)
	}
	srv, err := decodeServer(msgs[0])
	if err == nil && srv != nil {
		err = c.dests(srv)
	}
	if err != nil {
		return nil, fmt.Errorf("ipvs: get server %s: %w", k, err)
	}
	return srv, nil
}

func (c *Conn) dests(s *Server) error {
	b, err := encodeKey(s.Key)
	if err != nil {
		return err
	}
	msgs, err := c.genl.Execute(message(c.family, netlink.Request|netlink.Dump, cmdGetDest, version, b))
	if err != nil {
		return err
	}
	s.Dests = make(map[netip.AddrPort]Dest, len(msgs))
	for _, m := range msgs {
		a, d, err := decodeDest(m, s.Addr.Addr().Is4())
		if err != nil {
			return err
		}
		s.Dests[a] = d
	}
	return nil
}
