package cli

import (
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/announce"
	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/modes"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/remote"
)

// settings is what is known of a cluster beside its objects.
type settings struct {
	remote.Settings
	NoSecrets bool // TLS Secrets could not be listed
}

// declaredView is what the API says at every hop of every node, on any machine.
func declaredView(s *model.Snapshot, known settings) (trace.View, error) {
	names, err := dns.New(dns.Options{Domain: known.Domain, NoUpstream: true, CIDRs: slices.Concat(known.ServiceCIDRs, known.ClusterCIDRs)})
	if err != nil {
		return nil, err
	}
	table := routes.Build(routes.Config{}, s)
	return trace.Functions{Snapshot: s, Hops: map[string]func(*model.Snapshot, flow.Flow) flow.Verdict{
		trace.HopName:     names.Declared,
		trace.HopAnnounce: announce.New(announce.Options{}).Declared, // keeps the last election
		trace.HopIngress: func(_ *model.Snapshot, f flow.Flow) flow.Verdict {
			v := table.Verdict(f)
			if known.NoSecrets { // what may not be seen is not missing
				v.Findings = slices.DeleteFunc(v.Findings, func(f flow.Finding) bool { return f.Code == flow.IngressBadSecret })
			}
			return v
		},
		trace.HopProxy: proxy.New(proxy.Options{ServiceCIDRs: known.ServiceCIDRs, Settings: known.Proxy, Backend: modes.Backend(known.ProxyMode)}).Declared,
		trace.HopPodnet: func(s *model.Snapshot, f flow.Flow) flow.Verdict {
			return podnet.Declared(s, podnet.Options{ServiceCIDRs: known.ServiceCIDRs}, nil, f)
		},
	}}, nil
}
