// Package answers turns a snapshot of the cluster into DNS answers: the records of the Kubernetes DNS specification 1.1,
// laid out ready for the wire, one immutable View per snapshot. It is pure: it owns no socket, no clock and no lock, and
// knows nothing of upstream servers; a name that is not the cluster's is Foreign and somebody else's matter.
package answers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// DefaultTTL is the time to live of records in seconds when Options say nothing.
const DefaultTTL = 5

// versionTTL is that of dns-version, as in the specification's example.
const versionTTL = 28800

// specVersion is the version of the Kubernetes DNS specification that the answers follow.
const specVersion = "1.1.0"

// Options are what a View needs to know beside the cluster.
type Options struct {
	Domain      string         // cluster domain; "" = cluster.local
	CIDRs       []netip.Prefix // ranges of Services and Pods: names of their reverse zones are never asked elsewhere
	TTL         uint32         // seconds; 0 = DefaultTTL
	PodRecords  bool           // answer a-b-c-d.NAMESPACE.pod.DOMAIN with the address in the name (CoreDNS: pods insecure)
	PodsChecked bool           // with PodRecords: only for an address of a Pod in that namespace (CoreDNS: pods verified); needs Pods in the snapshot
	Namespaces  []string       // whose Services have names; empty = all
	NoEndpoints bool           // headless Services have no names
	PodNames    bool           // an endpoint without host name is called like its Pod, not by its address
	Nameservers []netip.Addr   // addresses of ns.dns.DOMAIN, the server named in NS and SOA
}

// zone is what never changes between Views: the zone's names in wire format and its fixed records.
type zone struct {
	domain   string // "cluster.local."
	name     []byte // wire format of domain, lower case
	svc      []byte // wire format of svc.domain
	labels   int    // number of labels of domain
	ttl      uint32
	negative uint32 // how long it is remembered that a name is not there: a Service may come at any time
	pods     bool
	verified bool
	reverse  []netip.Prefix
	only     map[string]bool // namespaces; nil = all
	bare     bool            // no endpoints
	podNames bool
	apex     *entry
	version  *entry
	ns       *entry
}

func newZone(o Options) (*zone, error) {
	if o.Domain == "" {
		o.Domain = "cluster.local"
	}
	z := &zone{domain: strings.ToLower(dns.Fqdn(o.Domain)), ttl: o.TTL, pods: o.PodRecords, verified: o.PodRecords && o.PodsChecked}
	if z.ttl == 0 {
		z.ttl = DefaultTTL
	}
	name, err := wireName(z.domain)
	if err != nil || len(name) == 1 {
		return nil, fmt.Errorf("dns: cluster domain %q is not a domain name", o.Domain)
	}
	z.bare, z.podNames = o.NoEndpoints, o.PodNames
	for _, ns := range o.Namespaces {
		if z.only == nil {
			z.only = map[string]bool{}
		}
		z.only[ns] = true
	}
	z.negative = min(z.ttl, DefaultTTL)
	z.name, z.svc, z.labels = name, appendLabel(nil, "svc"), dns.CountLabel(z.domain)
	z.svc = append(z.svc, name...)
	for _, p := range o.CIDRs {
		if !p.IsValid() {
			return nil, fmt.Errorf("dns: range %q is not valid", p)
		}
		z.reverse = append(z.reverse, p.Masked())
	}
	z.fixed(o.Nameservers)
	return z, nil
}

// fixed builds the records that do not depend on the cluster.
func (z *zone) fixed(servers []netip.Addr) {
	ns := append(appendLabel(appendLabel(nil, "ns"), "dns"), z.name...)
	var at set
	at.add(dns.TypeNS, z.ttl, ns)
	z.apex = newEntry(at)
	var text set
	text.add(dns.TypeTXT, versionTTL, appendLabel(nil, specVersion))
	z.version = newEntry(text)
	servers = slices.Clone(servers)
	slices.SortFunc(servers, netip.Addr.Compare)
	z.ns = newEntry(addressSets(slices.Compact(servers), z.ttl)...)
}

// wireName packs a name in presentation format, without compression.
func wireName(name string) ([]byte, error) {
	buf := make([]byte, 256)
	n, err := dns.PackDomainName(dns.Fqdn(name), buf, 0, nil, false)
	if err != nil {
		return nil, fmt.Errorf("dns: name %q: %w", name, err)
	}
	return buf[:n], nil
}

// appendLabel appends one label in wire format, in lower case.
func appendLabel(dst []byte, label string) []byte {
	dst = append(dst, byte(len(label)))
	for i := range len(label) {
		dst = append(dst, lower(label[i]))
	}
	return dst
}

func validLabel(s string) bool { return len(s) > 0 && len(s) < 64 }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
