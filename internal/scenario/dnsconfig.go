package scenario

import (
	"errors"
	"slices"

	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/corefile"
)

// dnsFile is the name of the file in a scenario that configures the DNS servers of all its nodes.
const dnsFile = "Corefile"

// dnsFile reads the configuration of the DNS servers.
func (p *parser) dnsFile(data []byte, line int) {
	p.dns = string(data)
	_, err := DNSConfig(p.dns)
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		at := line
		if problem, ok := errors.AsType[*corefile.Problem](err); ok {
			at += problem.At.Line
		}
		p.problem(at, err)
	}
}

// DNSConfig is what a scenario's Corefile means; nil for none.
func DNSConfig(text string) (*config.Config, error) {
	if text == "" {
		return nil, nil
	}
	return corefile.Parse(dnsFile, []byte(text), corefile.Options{})
}

// dnsOptions are those of a DNS server that asks nobody else.
func (s *State) dnsOptions() (dns.Options, error) {
	c, err := DNSConfig(s.DNS)
	return dns.Options{NoUpstream: true, Config: c, CIDRs: slices.Concat(ServiceCIDRs, ClusterCIDRs)}, err
}
