// Package deploy holds the manifests that run podway on a cluster. The files work with `kubectl apply -f deploy/` as
// they are; Manifests gives them with the values of a certain cluster.
package deploy

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"sort"
	"strings"
)

//go:embed *.yaml crds/*.yaml dns/*.yaml proxy/*.yaml modes/*/*.yaml
var files embed.FS

// Options are what differs from cluster to cluster. An empty field leaves the manifests' own value.
type Options struct {
	Image           string // podway's image, name and tag
	APIServer       string // host:port, reached without the service proxy
	ClusterDomain   string
	ClusterCIDRs    string   // comma-separated
	ServiceCIDRs    string   // comma-separated
	ClusterDNS      string   // ClusterIP of the DNS Service
	ProxyMode       string   // of the service proxy: nftables, iptables, ipvs, ebpf
	KubernetesNames string   // "true": EndpointSlices are labelled as kube-controller-manager's, whose controllers are off
	Pool            []string // addresses of an AddressPool "default"; empty = none is made
}

// Manifests returns all objects as YAML documents: custom resources first, then in the order of the files' names.
func Manifests(o Options) ([]byte, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("deploy: list manifests: %w", err)
	}
	crds, err := fs.Glob(files, "crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("deploy: list manifests: %w", err)
	}
	sort.Strings(names)
	var out bytes.Buffer
	for _, n := range append(crds, names...) {
		b, err := o.read(n)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "---\n# %s\n%s", n, b)
	}
	s, err := o.fill(out.String())
	return []byte(s), err
}

// ProxyManifests returns the objects of the service proxy alone, in kube-proxy's place; of the options only the image
// and the mode count.
func ProxyManifests(o Options) ([]byte, error) {
	const name = "proxy/proxy.yaml"
	b, err := o.read(name)
	if err != nil {
		return nil, err
	}
	s, err := Options{Image: o.Image}.fill(fmt.Sprintf("---\n# %s\n%s", name, b))
	return []byte(s), err
}

// DNSManifests returns the objects of the DNS server alone, in CoreDNS's place; with its Service and a Corefile when
// whole. Of the options only the image and, with the Service, ClusterDNS count.
func DNSManifests(o Options, whole bool) ([]byte, error) {
	names := []string{"dns/dns.yaml"}
	take := Options{Image: o.Image}
	if whole {
		names = append(names, "dns/service.yaml")
	}
	var out bytes.Buffer
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("deploy: read %s: %w", name, err)
		}
		fmt.Fprintf(&out, "---\n# %s\n%s", name, b)
	}
	s := out.String()
	if whole && o.ClusterDNS != "" {
		s = strings.ReplaceAll(s, "clusterIP: 10.96.0.10", fmt.Sprintf("clusterIP: %q", o.ClusterDNS))
	}
	s, err := take.fill(s)
	return []byte(s), err
}

// fill puts the options in the place of the manifests' own values, each of which must be there.
func (o Options) fill(s string) (string, error) {
	for _, r := range []struct{ field, old, val string }{
		{"Image", "image: podway.local/podway:dev", o.Image},
		{"APIServer", `PODWAY_APISERVER: ""`, o.APIServer},
		{"ClusterDomain", "PODWAY_CLUSTER_DOMAIN: cluster.local", o.ClusterDomain},
		{"ClusterCIDRs", "PODWAY_CLUSTER_CIDRS: 10.244.0.0/16", o.ClusterCIDRs},
		{"ServiceCIDRs", "PODWAY_SERVICE_CIDRS: 10.96.0.0/12", o.ServiceCIDRs},
		{"ProxyMode", `PODWAY_PROXY_MODE: ""`, o.ProxyMode},
		{"KubernetesNames", `PODWAY_KUBERNETES_NAMES: "false"`, o.KubernetesNames},
		{"ClusterDNS", "clusterIP: 10.96.0.10", o.ClusterDNS},
		{"ClusterDNS", "PODWAY_CLUSTER_DNS: 10.96.0.10", o.ClusterDNS},
	} {
		if r.val == "" {
			continue
		}
		if !strings.Contains(s, r.old) {
			return "", fmt.Errorf("deploy: no place for %s: the manifests lack %q", r.field, r.old)
		}
		key, _, _ := strings.Cut(r.old, ": ")
		s = strings.ReplaceAll(s, r.old, fmt.Sprintf("%s: %q", key, r.val))
	}
	if len(o.Pool) > 0 {
		s += fmt.Sprintf("---\napiVersion: podway.io/v1alpha1\nkind: AddressPool\nmetadata: {name: default}\nspec: {addresses: [%s]}\n", quoted(o.Pool))
	}
	return s, nil
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}
