// Package controlplane says how the control plane's components are started and how one knows that they are ready. It
// starts nothing itself.
package controlplane

import (
	"fmt"

	"github.com/podway/podway/internal/lab/pki"
	"github.com/podway/podway/internal/lab/spec"
)

// Names of the components, in the order in which they need each other. They are podway-lab's first argument too.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// Components lists the control plane.
func Components() []string { return []string{Etcd, APIServer, ControllerManager, Scheduler} }

// Args are a component's arguments to podway-lab.
func Args(c spec.Cluster, component string) []string {
	var flags []string
	switch component {
	case Etcd:
		flags = []string{"--data-dir=" + c.Etcd()}
	case APIServer:
		flags = apiServer(c)
	case ControllerManager:
		flags = controllerManager(c)
	case Scheduler:
		flags = []string{
			"--kubeconfig=" + c.PKI(pki.Scheduler+".kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
			"--tls-cert-file=" + c.PKI(pki.APIServer+".crt"), "--tls-private-key-file=" + c.PKI(pki.APIServer+".key"),
			"--kube-api-qps=500", "--kube-api-burst=1000", "--profiling=false",
		}
	}
	return append([]string{component}, flags...)
}

func apiServer(c spec.Cluster) []string {
	return []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + spec.APIServerAddress, // a loopback address is refused as the kubernetes Service's endpoint
		fmt.Sprintf("--secure-port=%d", spec.APIServerPort),
		"--tls-cert-file=" + c.PKI(pki.APIServer+".crt"), "--tls-private-key-file=" + c.PKI(pki.APIServer+".key"),
		"--client-ca-file=" + c.PKI("ca.crt"),
		"--kubelet-client-certificate=" + c.PKI(pki.KubeletClient+".crt"),
		"--kubelet-client-key=" + c.PKI(pki.KubeletClient+".key"),
		"--kubelet-certificate-authority=" + c.PKI("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file=" + c.PKI("sa.pub"), "--service-account-signing-key-file=" + c.PKI("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc." + spec.ClusterDomain,
		"--service-cluster-ip-range=" + spec.ServiceNetwork,
		"--authorization-mode=Node,RBAC", "--allow-privileged=true", "--profiling=false",
		// No Service proxy runs beside the API server: it reaches webhooks by their pods' addresses.
		"--enable-aggregator-routing=true",
	}
}

func controllerManager(c spec.Cluster) []string {
	return []string{
		"--kubeconfig=" + c.PKI(pki.ControllerManager+".kubeconfig"), "--use-service-account-credentials",
		"--service-account-private-key-file=" + c.PKI("sa.key"), "--root-ca-file=" + c.PKI("ca.crt"),
		"--cluster-signing-cert-file=" + c.PKI("ca.crt"), "--cluster-signing-key-file=" + c.PKI("ca.key"),
		"--allocate-node-cidrs", "--cluster-cidr=" + spec.PodNetwork, fmt.Sprintf("--node-cidr-mask-size=%d", spec.PodMaskSize),
		"--service-cluster-ip-range=" + spec.ServiceNetwork,
		"--controllers=" + controllers(c),
		"--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false",
		"--tls-cert-file=" + c.PKI(pki.APIServer+".crt"), "--tls-private-key-file=" + c.PKI(pki.APIServer+".key"),
		// With the defaults of 20 and 30 the first service account waits for seconds behind everything else.
		"--kube-api-qps=500", "--kube-api-burst=1000",
		// A node that is gone is noticed while one watches.
		"--node-monitor-period=1s", "--node-monitor-grace-period=8s",
	}
}

// controllers leaves out the ones that podway replaces.
func controllers(c spec.Cluster) string {
	if c.Networking != spec.NetworkingPodway {
		return "*"
	}
	return "*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller"
}
