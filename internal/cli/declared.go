package cli

import (
	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/announce"
	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
)

// declaredView is what the API says at every hop of every node, on any machine.
func declaredView(s *model.Snapshot, domain string) (trace.View, error) {
	names, err := dns.New(dns.Options{Domain: domain, NoUpstream: true})
	if err != nil {
		return nil, err
	}
	table := routes.Build(routes.Config{}, s)
	return trace.Functions{Snapshot: s, Hops: map[string]func(*model.Snapshot, flow.Flow) flow.Verdict{
		trace.HopName:     names.Declared,
		trace.HopAnnounce: announce.New(announce.Options{}).Declared, // keeps the last election
		trace.HopIngress:  func(_ *model.Snapshot, f flow.Flow) flow.Verdict { return table.Verdict(f) },
		trace.HopProxy:    proxy.New(proxy.Options{}).Declared,
		trace.HopPodnet: func(s *model.Snapshot, f flow.Flow) flow.Verdict {
			return podnet.Declared(s, podnet.Options{}, nil, f)
		},
	}}, nil
}
