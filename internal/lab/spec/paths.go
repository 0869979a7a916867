package spec

import "path/filepath"

// PKI is the folder of certificates, keys and kubeconfigs.
func (c Cluster) PKI(elem ...string) string {
	return filepath.Join(append([]string{c.Dir, "pki"}, elem...)...)
}

// Kubeconfig is the administrator's, for use on the host.
func (c Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Images is the folder of image archives that every node imports.
func (c Cluster) Images() string { return filepath.Join(c.Dir, "images") }

// Etcd is the folder of the cluster's store.
func (c Cluster) Etcd() string { return filepath.Join(c.Dir, "etcd") }

// Log is the log file of a control plane component, or of the supervisor.
func (c Cluster) Log(component string) string {
	return filepath.Join(c.Dir, "log", component+".log")
}

// Log is the log file of a component of the node.
func (n Node) Log(component string) string {
	return filepath.Join(n.Dir, "log", component+".log")
}

// SocketName is the supervisor's control socket, relative to the lab's folder.
const SocketName = "supervisor.sock"
