package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/announce"
	"github.com/podway/podway/internal/hop/announce/arp"
	"github.com/podway/podway/internal/hop/dns"
	dnsconfig "github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/health"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
)

// Options are what the hops of a node need to know.
type Options struct {
	Node         string
	NS           *netns.NS // the node's network namespace; nil = this process's
	Domain       string    // of the cluster; "" = cluster.local
	ClusterCIDRs []netip.Prefix
	ServiceCIDRs []netip.Prefix
	ProxyMode    string         // a name of ProxyModes; "" = the first
	Proxy        proxy.Settings // of the service proxy
	// Tracking, Health and Event are the service proxy's (proxy.Options); nil = without.
	Tracking *proxy.Tracking
	Health   *health.Node
	Event    func(service model.Name, reason, note string)
	// Foreign are other programs' rules that the service proxy takes out once its own are proven.
	Foreign    []proxy.Backend
	Podnet     podnet.Options // Node and ServiceCIDRs are filled in
	DNSListen  []netip.AddrPort
	DNSServers []netip.Addr                      // addresses of the cluster's DNS Service; they are never asked for names outside
	DNSConfig  *dnsconfig.Config                 // what a Corefile says; nil = the names of the cluster, and ResolvConf for all others
	DNSChanged func() (*dnsconfig.Config, error) // see dns.Options.Changed
	ResolvConf string                            // names outside the cluster are asked of its servers; "" = /etc/resolv.conf
	Metrics    prometheus.Registerer
	Log        *slog.Logger
}

// lameduck is how long DNS goes on answering after the end was asked for: longer than the other nodes need to hear of it.
const lameduck = 5 * time.Second

// makers make each hop of a node, in the order in which a request meets them.
var makers = []struct {
	name string
	make func(Options) (hop.Hop, error)
}{
	{"dns", makeDNS},
	{"announce", makeAnnounce},
	{"proxy", makeProxy},
	{"podnet", makePodnet},
}

func makeDNS(o Options) (hop.Hop, error) {
	opt := dns.Options{Node: o.Node, Domain: o.Domain, Listen: o.DNSListen, ResolvConf: o.ResolvConf,
		CIDRs: slices.Concat(o.ServiceCIDRs, o.ClusterCIDRs), Nameservers: o.DNSServers, Lameduck: lameduck, Metrics: o.Metrics,
		Config: o.DNSConfig, Changed: o.DNSChanged}
	if o.NS != nil {
		opt.In = o.NS.Do
	}
	return dns.New(opt)
}

func makeAnnounce(o Options) (hop.Hop, error) {
	opt := arp.Options{NS: o.NS, Log: o.Log}
	if o.Metrics != nil {
		opt.Metrics = arp.NewMetrics(o.Metrics)
	}
	r := arp.New(opt)
	return announce.New(announce.Options{Node: o.Node, Announcers: []announce.Announcer{r}}), nil
}

func makeProxy(o Options) (hop.Hop, error) {
	connections, err := conntrack.Open(o.NS)
	if err != nil {
		return nil, err
	}
	backend, err := Backend(o.ProxyMode, o.NS)
	if err != nil {
		return nil, err
	}
	opt := proxy.Options{Node: o.Node, Backend: backend, Connections: connections, ServiceCIDRs: o.ServiceCIDRs, Settings: o.Proxy, Listen: listenIn(o.NS), Sysctl: sysctl.Open(o.NS),
		Tracking: o.Tracking, CPUs: sysctl.Processors(), Health: o.Health, Event: o.Event}
	opt.Others, opt.Dial = append(others(backend.Name(), o.NS), o.Foreign...), dialIn(o.NS)
	if o.Log != nil {
		opt.Switched = func(from, to, reached string) {
			o.Log.Info("proxy mode changed; the old rules are gone", "hop", "proxy", "from", from, "to", to, "reached", reached)
		}
	}
	if n := o.Proxy.NodePorts; n.All || len(n.In) > 0 {
		addrs, err := link.Follow(o.NS, "kube-ipvs0") // what is on that device are addresses of Services
		if err != nil {
			return nil, err
		}
		opt.Host = addrs.Now
	}
	if o.Metrics != nil {
		opt.Metrics = proxy.NewMetrics(o.Metrics, backend.Name())
	}
	return proxy.New(opt), nil
}

// dialIn connects from a namespace; nil is this process's.
func dialIn(ns *netns.NS) proxy.Dial {
	return func(ctx context.Context, to netip.AddrPort) error {
		connect := func() error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
			if err != nil {
				return err
			}
			return c.Close()
		}
		if ns == nil {
			return connect()
		}
		return ns.Do(connect)
	}
}

// listenIn opens TCP listeners in a namespace; nil is this process's.
func listenIn(ns *netns.NS) func(string) (net.Listener, error) {
	return func(address string) (l net.Listener, err error) {
		if ns == nil {
			return net.Listen("tcp", address)
		}
		err = ns.Do(func() (err error) {
			l, err = net.Listen("tcp", address)
			return err
		})
		return l, err
	}
}

func makePodnet(o Options) (hop.Hop, error) {
	opt := o.Podnet
	opt.Node, opt.ServiceCIDRs = o.Node, o.ServiceCIDRs
	if o.Metrics != nil {
		opt.Metrics = podnet.NewMetrics(o.Metrics)
	}
	return podnet.New(o.NS, opt)
}

// HopNames are the names of all hops of a node in request order.
func HopNames() (out []string) {
	for _, m := range makers {
		out = append(out, m.name)
	}
	return out
}

// Hops makes the named hops, in request order. An unknown name is an error.
func Hops(names []string, o Options) ([]hop.Hop, error) {
	for _, n := range names {
		if !slices.Contains(HopNames(), n) {
			return nil, fmt.Errorf("agent: no hop %q; there are %s", n, strings.Join(HopNames(), ", "))
		}
	}
	if slices.Contains(names, "announce") {
		o.Proxy.IPVS.StrictARP = true // or every node answers for the addresses that one of them announces
	}
	var out []hop.Hop
	var errs []error
	for _, m := range makers {
		if !slices.Contains(names, m.name) {
			continue
		}
		h, err := m.make(o)
		if err != nil {
			errs = append(errs, fmt.Errorf("agent: make hop %s: %w", m.name, err))
			continue
		}
		out = append(out, h)
	}
	return out, errors.Join(errs...)
}
