package kubeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/podway/podway/internal/hop/proxy"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// The device of mode ipvs, which is podway's too in that mode, and the table that only podway has beside it.
const (
	ipvsDevice   = "kube-ipvs0"
	podwaysTable = "podway-ipvs"
)

// Servers are kube-proxy's device and virtual servers of mode ipvs; its chains of that mode are Chains. Virtual servers are
// kube-proxy's when their address is on the device, or when they are at a port for node ports. What is taken out is kept in a
// file. It implements proxy.Backend as far as a change of modes needs it.
//
// Where podway's own mode ipvs is the new one there is nothing to take out: it goes on with the device and the virtual
// servers, which then are podway's.
type Servers struct {
	unable
	ns  *netns.NS
	dir string
}

// IPVS returns those of a namespace; nil is the process's own. dir is where they are kept.
func IPVS(ns *netns.NS, dir string) *Servers { return &Servers{ns: ns, dir: dir} }

// Name implements proxy.Backend.
func (s *Servers) Name() string { return "ipvs of kube-proxy" }

// nodePort reports whether a port is in the default range of node ports (--service-node-port-range).
func nodePort(p uint16) bool { return p >= 30000 && p < 32768 }

// read returns what is kube-proxy's. A kernel without IPVS, and one with podway's tables, has nothing of it.
func (s *Servers) read(ctx context.Context) (*kipvs.State, error) {
	mine, err := s.podways(ctx)
	if mine || err != nil {
		return kipvs.NewState(), err
	}
	k, err := kipvs.Open(s.ns, ipvsDevice)
	if errors.Is(err, errors.ErrUnsupported) {
		return kipvs.NewState(), nil
	}
	if err != nil {
		return nil, err
	}
	defer k.Close()
	have, err := k.Read(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(have.Servers, func(k kipvs.Key, _ *kipvs.Server) bool {
		return !have.Device || !have.Addrs[k.Addr.Addr()] && !nodePort(k.Addr.Port())
	})
	return have, nil
}

// podways reports whether the device is that of podway's mode ipvs.
func (s *Servers) podways(ctx context.Context) (bool, error) {
	k, err := knft.Open(s.ns)
	if err != nil {
		return false, err
	}
	defer k.Close()
	for _, f := range []knft.Family{knft.IPv4, knft.IPv6} {
		t, err := k.Look(ctx, f, podwaysTable)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return false, err
		}
		if t != nil {
			return true, nil
		}
	}
	return false, nil
}

// Objects names what there is.
func (s *Servers) Objects(ctx context.Context) (out []string, err error) {
	have, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if have.Device {
		out = append(out, fmt.Sprintf("device %s with %d addresses, %d virtual servers", ipvsDevice, len(have.Addrs), len(have.Servers)))
	}
	if _, err := os.Stat(s.file()); err == nil {
		out = append(out, "device and virtual servers taken out, kept in "+s.file())
	}
	return out, nil
}

// Owns implements proxy.Owner.
func (s *Servers) Owns(ctx context.Context) (bool, error) {
	have, err := s.read(ctx)
	return err == nil && have.Device, err
}

func (s *Servers) file() string { return filepath.Join(s.dir, "kube-proxy.ipvs") }

// kept is the form of the file.
type kept struct {
	Addrs   []netip.Addr
	Servers []*kipvs.Server
}

// Remove takes the device and the virtual servers away after writing down how they were. The chains that go with them, which
// masquerade, are no use without them and harm nobody.
func (s *Servers) Remove(ctx context.Context) error {
	have, err := s.read(ctx)
	if err != nil || !have.Device {
		return err
	}
	k := kept{Addrs: slices.SortedFunc(maps.Keys(have.Addrs), netip.Addr.Compare)}
	var ops []kipvs.Op
	for _, key := range slices.SortedFunc(maps.Keys(have.Servers), kipvs.Key.Compare) {
		k.Servers = append(k.Servers, have.Servers[key])
		ops = append(ops, kipvs.Op{Kind: kipvs.DelServer, Server: have.Servers[key]})
	}
	text, err := json.Marshal(k)
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(s.file(), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep kube-proxy's virtual servers: %w", err)
	}
	return s.apply(ctx, append(ops, kipvs.Op{Kind: kipvs.DelDevice}))
}

func (s *Servers) apply(ctx context.Context, ops []kipvs.Op) error {
	k, err := kipvs.Open(s.ns, ipvsDevice)
	if err != nil {
		return err
	}
	defer k.Close()
	return k.Apply(ctx, ops)
}

// PutBack makes again what was taken out. It reports whether there was anything.
func (s *Servers) PutBack(ctx context.Context) (bool, error) {
	text, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read kube-proxy's virtual servers: %w", err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return true, fmt.Errorf("read kube-proxy's virtual servers: %s: %w", s.file(), err)
	}
	ops := []kipvs.Op{{Kind: kipvs.AddDevice}}
	for _, a := range k.Addrs {
		ops = append(ops, kipvs.Op{Kind: kipvs.AddAddr, IP: a})
	}
	for _, v := range k.Servers {
		ops = append(ops, kipvs.Op{Kind: kipvs.AddServer, Server: v})
		for to, d := range v.Dests {
			ops = append(ops, kipvs.Op{Kind: kipvs.AddDest, Server: v, To: to, Weight: d.Weight})
		}
	}
	if err := s.apply(ctx, ops); err != nil {
		return true, err
	}
	if err := os.Remove(s.file()); err != nil {
		return true, fmt.Errorf("kube-proxy's virtual servers are back: %w", err)
	}
	return true, nil
}

// Apply implements proxy.Backend: what was removed comes back.
func (s *Servers) Apply(ctx context.Context, _ *proxy.Plan) (proxy.Applied, error) {
	_, err := s.PutBack(ctx)
	return proxy.Applied{}, err
}

// Forget deletes what was kept.
func (s *Servers) Forget(context.Context) error {
	if err := os.Remove(s.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget kube-proxy's virtual servers: %w", err)
	}
	return nil
}
