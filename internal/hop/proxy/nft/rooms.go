package nft

import knft "github.com/podway/podway/internal/kernel/nft"

// rooms is for how many elements the kernel made each set, by family and name. It follows from what the sets once were, so
// it is read from the kernel, not from the plan.
type rooms map[knft.Family]map[string]uint32

// roomsOf are the rooms of tables as they were read.
func roomsOf(r *Ruleset) rooms {
	out := rooms{}
	for _, t := range r.tables {
		for name, s := range t.Sets {
			out.set(t.Family, name, s.Room)
		}
	}
	return out
}

func (r rooms) set(f knft.Family, name string, room uint32) {
	if r[f] == nil {
		r[f] = map[string]uint32{}
	}
	if delete(r[f], name); room > 0 {
		r[f][name] = room
	}
}

// put writes the rooms into tables that were rendered.
func (r rooms) put(into *Ruleset) {
	for _, t := range into.tables {
		for name, s := range t.Sets {
			s.Room = r[t.Family][name]
		}
	}
}

// follow notes which sets of a family operations make.
func (r rooms) follow(f knft.Family, ops []knft.Op) {
	for _, op := range ops {
		if op.Kind == knft.AddSet && op.Table.Family == f {
			r.set(f, op.Set.Name, op.Set.Room)
		}
	}
}

// tighten makes sets look too small, so that a full apply makes them anew.
func (r rooms) tighten(f knft.Family, names []string) {
	for _, n := range names {
		r.set(f, n, 1)
	}
}
