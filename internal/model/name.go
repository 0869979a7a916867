package model

import (
	"cmp"
	"strings"
)

// Name is the namespace and name of an object; cluster-wide objects have no namespace.
type Name struct{ Namespace, Name string }

// N is short for Name{namespace, name}.
func N(namespace, name string) Name { return Name{Namespace: namespace, Name: name} }

// String is "namespace/name", or the bare name of a cluster-wide object.
func (n Name) String() string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "/" + n.Name
}

// Compare orders by namespace, then name.
func (n Name) Compare(o Name) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name))
}

// Protocol is a transport protocol as Kubernetes spells it.
type Protocol string

// The transport protocols of Services (KEP-614 for SCTP).
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// PortRef names a port by number or, when Name is set, by name (a Kubernetes IntOrString).
type PortRef struct {
	Name   string
	Number uint16
}

// IsZero reports whether neither name nor number is given.
func (p PortRef) IsZero() bool { return p == PortRef{} }
