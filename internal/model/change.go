package model

// Change says what differs between two snapshots. It is a hint that saves work: applying the whole new snapshot is
// always right. Services lists each Service whose object or whose slices differ.
type Change struct {
	All       bool // no old snapshot: everything may differ, the lists are empty
	Services  []Name
	Nodes     []string
	Pods      []Name
	Ingresses []Name
	Classes   []string
	Secrets   []Name
	Pools     []string

	ServiceCIDRs []string
}

// Everything is the change that hides nothing.
func Everything() Change { return Change{All: true} }

// Empty reports whether nothing differs.
func (c Change) Empty() bool {
	return !c.All && len(c.Services)+len(c.Nodes)+len(c.Pods)+len(c.Ingresses)+len(c.Classes)+len(c.Secrets)+len(c.Pools)+len(c.ServiceCIDRs) == 0
}

// Diff compares two snapshots; old may be nil. It costs what differs, not what is there.
func Diff(old, new *Snapshot) Change {
	if old == nil {
		return Everything()
	}
	return Change{
		Services:  changedServices(old, new),
		Nodes:     changed(old.Nodes, new.Nodes),
		Pods:      changed(old.Pods, new.Pods),
		Ingresses: changed(old.Ingresses, new.Ingresses),
		Classes:   changed(old.Classes, new.Classes),
		Secrets:   changed(old.Secrets, new.Secrets),
		Pools:     changed(old.Pools, new.Pools),

		ServiceCIDRs: changed(old.ServiceCIDRs, new.ServiceCIDRs),
	}
}

func changed[K comparable, V comparable](old, new Map[K, V]) []K {
	var out []K
	Changed(old, new, func(k K) { out = append(out, k) })
	return out
}

func changedServices(old, new *Snapshot) []Name {
	out := changed(old.Services, new.Services)
	seen := make(map[Name]bool, len(out))
	for _, n := range out {
		seen[n] = true
	}
	Changed(old.backends, new.backends, func(n Name) {
		if !seen[n] {
			out = append(out, n)
		}
	})
	return out
}
