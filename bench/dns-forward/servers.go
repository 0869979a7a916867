package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/podway/podway/bench/dnspeer"
	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/model"
)

// serve is podway's DNS server as a node runs it, with metrics, for a cluster without Services.
func serve(ctx context.Context, o options) error {
	addr, err := netip.ParseAddrPort(o.listen)
	if err != nil {
		return err
	}
	world, err := netip.ParseAddrPort(o.upstream)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	c := config.Default(config.Defaults{Domain: "cluster.local.", TTL: 5, To: []config.Target{{Addr: world}}, Stale: time.Hour})
	c.Blocks[0].Cache.Denial.Max = time.Hour // as the others have it
	h, err := dns.New(dns.Options{Listen: []netip.AddrPort{addr}, Config: c, Metrics: registry})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) }()
	if _, err := h.Apply(ctx, model.NewBuilder(nil).Snapshot(time.Now()), model.Everything()); err != nil {
		return err
	}
	if o.profile != "" {
		dnspeer.Profile(o.profile)
	}
	<-ctx.Done()
	return nil
}

// peers starts what is measured, and what stands behind it.
type peers struct {
	options
	dir, coredns string
	world        netip.AddrPort
}

func (p *peers) place() dnspeer.Place { return dnspeer.Alone(dnspeer.CPU()) }

// podway is this program again.
func (p *peers) podway(ctx context.Context, addr netip.AddrPort) (*dnspeer.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{self, "-serve", "-listen", addr.String(), "-upstream", p.world.String()}
	if p.profile != "" {
		args = append(args, "-profile", p.profile)
	}
	return dnspeer.Start(ctx, "podway", addr, p.place(), nil, args...)
}

// unboundConf forwards everything, keeps more than all names need, and leaves out what podway does not do either: DNSSEC
// validation, log, remote control.
const unboundConf = `server:
  interface: %s@%d
  port: %d
  num-threads: 1
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "%s"
  pidfile: ""
  use-syslog: no
  verbosity: 0
  statistics-interval: 0
  module-config: "iterator"
  do-not-query-localhost: no
  do-ip6: no
  access-control: 127.0.0.0/8 allow
  msg-cache-size: 64m
  rrset-cache-size: 64m
  msg-cache-slabs: 1
  rrset-cache-slabs: 1
  so-rcvbuf: 1m
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: %s@%d
`

func (p *peers) unbound(ctx context.Context, addr netip.AddrPort) (*dnspeer.Process, error) {
	file := filepath.Join(p.dir, "unbound.conf")
	world := p.world
	text := fmt.Sprintf(unboundConf, addr.Addr(), addr.Port(), addr.Port(), p.dir, world.Addr(), world.Port())
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return dnspeer.Start(ctx, "unbound", addr, p.place(), nil, "unbound", "-d", "-c", file)
}

// corefile is what kubeadm writes, without the cluster, with a cache for all names.
const corefile = `.:%d {
    bind %s
    errors
    prometheus %s
    forward . %s
    cache 3600 {
       success 20000 3600
       denial 20000 3600
    }
    loop
    loadbalance
}
`

func (p *peers) core(ctx context.Context, addr netip.AddrPort) (*dnspeer.Process, error) {
	metrics, err := dnspeer.FreePort()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(corefile, addr.Port(), addr.Addr(), metrics, p.world)
	return dnspeer.StartCorefile(ctx, p.coredns, p.dir, p.place(), addr, text)
}
