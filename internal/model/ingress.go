package model

import (
	"cmp"
	"time"
)

// PathType is how an Ingress path matches.
type PathType string

// The path types of networking.k8s.io/v1.
const (
	PathExact    PathType = "Exact"
	PathPrefix   PathType = "Prefix"
	PathSpecific PathType = "ImplementationSpecific"
)

// Ingress is a networking.k8s.io/v1 Ingress.
type Ingress struct {
	Name            Name
	UID             string
	ResourceVersion string
	Created         time.Time
	Annotations     map[string]string
	Class           string // spec.ingressClassName, else the legacy annotation; "" = the default class
	Default         *IngressBackend
	Rules           []IngressRule
	TLS             []IngressTLS
	Addresses       []string // status.loadBalancer.ingress: IPs and host names
}

// Compare orders by precedence: of two Ingresses that say something about the same request the older one counts.
func (i *Ingress) Compare(o *Ingress) int {
	return cmp.Or(i.Created.Compare(o.Created), i.Name.Compare(o.Name))
}

// IngressRule is the paths of one host; Host "" is every host, "*.x" one label before x.
type IngressRule struct {
	Host  string
	Paths []IngressPath
}

// IngressPath sends a path to a backend.
type IngressPath struct {
	Path    string
	Type    PathType
	Backend IngressBackend
}

// IngressBackend is a Service port, or a resource that nobody here serves (Resource then says which).
type IngressBackend struct {
	Service  string // in the Ingress's namespace
	Port     PortRef
	Resource string // "kind/name" when the backend is no Service
}

// IngressTLS serves the hosts with the Secret of the Ingress's namespace; no hosts = those of the certificate.
type IngressTLS struct {
	Hosts  []string
	Secret string
}

// IngressClass is a networking.k8s.io/v1 IngressClass.
type IngressClass struct {
	Name       string
	Controller string
	Default    bool
}

// Secret is a Secret of type kubernetes.io/tls: PEM certificate chain and key.
type Secret struct {
	Name            Name
	ResourceVersion string
	Cert, Key       []byte
}
