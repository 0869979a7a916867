package pki

import (
	"net"

	"github.com/podway/podway/internal/lab/spec"
)

// Base names of the identities' files.
const (
	APIServer         = "apiserver"
	KubeletClient     = "apiserver-kubelet-client" // the API server towards kubelets
	Admin             = "admin"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// Identities lists what a cluster needs. No front-proxy certificates: without an extension API server nobody uses them.
func Identities(c spec.Cluster) []Identity {
	server := spec.Server()
	ids := []Identity{
		{File: APIServer, CommonName: "kube-apiserver", DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + spec.ClusterDomain,
		}, Addresses: ips("127.0.0.1", spec.APIServerAddress, spec.KubernetesIP)},
		{File: KubeletClient, CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}},
		{File: Admin, CommonName: "podway-lab-admin", Organizations: []string{"system:masters"}, Kubeconfig: server},
		{File: ControllerManager, CommonName: "system:kube-controller-manager", Kubeconfig: server},
		{File: Scheduler, CommonName: "system:kube-scheduler", Kubeconfig: server},
	}
	for _, n := range c.AllNodes() {
		ids = append(ids, Identity{
			File: n.Name, CommonName: "system:node:" + n.Name, Organizations: []string{"system:nodes"},
			DNSNames: []string{n.Name}, Addresses: ips(n.Address.String()), Kubeconfig: server,
		})
	}
	return ids
}

func ips(addresses ...string) []net.IP {
	out := make([]net.IP, 0, len(addresses))
	for _, a := range addresses {
		out = append(out, net.ParseIP(a))
	}
	return out
}

// Ensure makes what is missing of the cluster's certificates, keys and kubeconfigs.
func Ensure(c spec.Cluster) error {
	a, err := Open(c.PKI())
	if err != nil {
		return err
	}
	for _, id := range Identities(c) {
		if err := a.Issue(id); err != nil {
			return err
		}
	}
	return a.ServiceAccountKeys()
}

// HostKubeconfig writes the administrator's kubeconfig for the host, where the API server has a port of its own.
func HostKubeconfig(c spec.Cluster) error {
	a, err := Open(c.PKI())
	if err != nil {
		return err
	}
	return a.WriteKubeconfig(c.Kubeconfig(), Admin, c.HostServer())
}
