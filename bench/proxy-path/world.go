package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/podway/podway/internal/nettest"
)

// world has a node for each lane, with a client Pod and two server Pods.
type world struct {
	net     *nettest.World
	size    size
	nodes   int // that were made, also for a lane that was left out
	lanes   []*lane
	closers []io.Closer
}

// lane is one thing that is measured.
type lane struct {
	name   string
	to     []string // TCP and UDP addresses that the client uses
	client *nettest.Process
	enc    *json.Encoder
	dec    *json.Decoder
}

func newWorld(ctx context.Context, n size) (*world, error) {
	w, err := nettest.New()
	if err != nil {
		return nil, err
	}
	if err := w.UseCgroups(); err != nil { // sockets of one lane must not meet the programs of another
		return nil, errors.Join(err, w.Close())
	}
	return &world{net: w, size: n}, nil
}

// add makes the lane's node and loads its rules; took is how long the load took.
func (w *world) add(ctx context.Context, name, peer string, patient time.Duration) (took time.Duration, err error) {
	i := w.nodes
	w.nodes++
	node, err := w.net.AddNode(fmt.Sprintf("node-%d", i), 0)
	if err != nil {
		return 0, err
	}
	addr := func(host byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 244, byte(i), host}) }
	client, err := w.net.AddPod(node, fmt.Sprintf("client-%d", i), addr(2))
	if err != nil {
		return 0, err
	}
	l := &lane{name: name}
	var backends []netip.Addr
	for k, a := range []netip.Addr{addr(3), addr(4)} {
		h, err := w.net.AddPod(node, fmt.Sprintf("server-%d-%d", i, k), a)
		if err != nil {
			return 0, err
		}
		if err := w.listen(h); err != nil {
			return 0, err
		}
		backends = append(backends, a)
		if w.size.many() {
			more, err := manyAddresses(node, h, a, k, (w.size.backends-few+1-k)/few)
			if err != nil {
				return 0, err
			}
			backends = append(backends, more...)
		}
	}
	for _, a := range backends[:few] {
		l.to = append(l.to, netip.AddrPortFrom(a, serverPort).String())
	}
	if err := w.net.Settle(ctx); err != nil {
		return 0, err
	}
	if load := loaders[name]; load != nil {
		l.to = []string{netip.AddrPortFrom(target(w.size.services), servicePort).String()}
		objs := makeObjects(w.size.services, node.Name, nettest.NodeAddrs(0, i), netip.PrefixFrom(addr(0), 24), backends)
		ctx, cancel := context.WithTimeout(ctx, patient)
		defer cancel()
		start := time.Now()
		closer, err := load(ctx, node, objs, peer)
		if took = time.Since(start); err != nil {
			return took, err
		}
		w.closers = append(w.closers, closer)
	}
	self, err := os.Executable()
	if err != nil {
		return took, err
	}
	if l.client, err = client.Start(ctx, []string{self, "-client"}); err != nil {
		return took, err
	}
	l.enc, l.dec = json.NewEncoder(l.client.Stdin), json.NewDecoder(l.client.Stdout)
	w.lanes = append(w.lanes, l)
	return took, nil
}

// manyAddresses gives a server Pod n addresses more.
func manyAddresses(node, pod *nettest.Host, at netip.Addr, k, n int) (out []netip.Addr, err error) {
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245, byte(k) << 4, 0}), 20)
	if err := errors.Join(pod.Owns(p), node.Route(p, at)); err != nil {
		return nil, err
	}
	for a := p.Addr().Next(); len(out) < n; a = a.Next() {
		out = append(out, a)
	}
	return out, nil
}

// listen serves TCP (what comes is thrown away) and echoes UDP.
func (w *world) listen(h *nettest.Host) error {
	return h.Do(func() error {
		l, err := net.Listen("tcp4", fmt.Sprintf(":%d", serverPort))
		if err != nil {
			return err
		}
		u, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", serverPort))
		if err != nil {
			return errors.Join(err, l.Close())
		}
		w.closers = append(w.closers, l, u)
		go accept(l)
		go echo(u)
		return nil
	})
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, make([]byte, streamChunk)) // ends with the client's reset
		}()
	}
}

func echo(u net.PacketConn) {
	b := make([]byte, 2048)
	for {
		n, from, err := u.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = u.WriteTo(b[:n], from)
	}
}

// ask has the lane's client spend one window.
func (l *lane) ask(j job) (sample, error) {
	j.To = l.to
	if err := l.enc.Encode(j); err != nil {
		return sample{}, err
	}
	s, err := decode[sample](l.dec)
	if err == nil && s.Error != "" {
		err = errors.New(s.Error)
	}
	return s, err
}

func (w *world) close() {
	for _, l := range w.lanes {
		_ = l.client.Stop(time.Second)
	}
	for _, c := range w.closers {
		_ = c.Close()
	}
	_ = w.net.Close()
}
