package model

import "time"

// Builder derives a Snapshot from another by putting and deleting objects; it costs what changes. It is not safe for
// concurrent use.
type Builder struct{ s Snapshot }

// NewBuilder starts from a snapshot, or from an empty cluster when it is nil.
func NewBuilder(from *Snapshot) *Builder {
	b := &Builder{}
	if from != nil {
		b.s = *from
	}
	return b
}

// Snapshot returns what has been built so far, with the next revision; the Builder may go on.
func (b *Builder) Snapshot(now time.Time) *Snapshot {
	b.s.Rev++
	b.s.Time = now
	out := b.s
	return &out
}

// Put adds or replaces an object of any of the model's kinds: *Service, *EndpointSlice, *Node, *Pod, *Ingress,
// *IngressClass, *Secret, *Pool, *ServiceCIDR, *Workload. It panics on any other type.
func (b *Builder) Put(obj any) {
	s := &b.s
	switch o := obj.(type) {
	case *Service:
		s.Services = s.Services.Set(o.Name, o)
	case *EndpointSlice:
		s.setSlice(o)
	case *Node:
		s.Nodes = s.Nodes.Set(o.Name, o)
	case *Pod:
		s.Pods = s.Pods.Set(o.Name, o)
	case *Ingress:
		s.Ingresses = s.Ingresses.Set(o.Name, o)
	case *IngressClass:
		s.Classes = s.Classes.Set(o.Name, o)
	case *Secret:
		s.Secrets = s.Secrets.Set(o.Name, o)
	case *Pool:
		s.Pools = s.Pools.Set(o.Name, o)
	case *ServiceCIDR:
		s.ServiceCIDRs = s.ServiceCIDRs.Set(o.Name, o)
	case *Workload:
		s.Workloads = s.Workloads.Set(o.key(), o)
	default:
		panic("model: Put of an unknown kind")
	}
}

// Delete removes the object of the same kind and name as obj; only its name fields are read.
func (b *Builder) Delete(obj any) {
	s := &b.s
	switch o := obj.(type) {
	case *Service:
		s.Services = s.Services.Delete(o.Name)
	case *EndpointSlice:
		s.removeSlice(o.Name)
	case *Node:
		s.Nodes = s.Nodes.Delete(o.Name)
	case *Pod:
		s.Pods = s.Pods.Delete(o.Name)
	case *Ingress:
		s.Ingresses = s.Ingresses.Delete(o.Name)
	case *IngressClass:
		s.Classes = s.Classes.Delete(o.Name)
	case *Secret:
		s.Secrets = s.Secrets.Delete(o.Name)
	case *Pool:
		s.Pools = s.Pools.Delete(o.Name)
	case *ServiceCIDR:
		s.ServiceCIDRs = s.ServiceCIDRs.Delete(o.Name)
	case *Workload:
		s.Workloads = s.Workloads.Delete(o.key())
	default:
		panic("model: Delete of an unknown kind")
	}
}

func (w *Workload) key() Name { return N(w.Name.Namespace, w.Kind+"/"+w.Name.Name) }
