package endpointslice

import (
	"slices"

	"github.com/podway/podway/internal/model"
)

// Shelves remember where in its slice each Pod stands, so that a Pod that changes is found without a look at all others.
// They are of one Service, by the slice's name. A nil Shelves works, and remembers nothing.
type Shelves map[string]*shelf

type shelf struct {
	slice *model.EndpointSlice
	key   string           // of its ports
	at    map[string]int32 // Pod name -> place
}

// of returns the shelf of a slice, making it anew when the slice is another one than last time.
func (s Shelves) of(sl *model.EndpointSlice) *shelf {
	sh := s[sl.Name.Name]
	if sh != nil && sh.holds(sl) {
		sh.slice = sl
		return sh
	}
	sh = &shelf{slice: sl, key: portsKey(sl.Ports), at: make(map[string]int32, len(sl.Endpoints))}
	for i := range sl.Endpoints {
		sh.at[sl.Endpoints[i].Pod.Name] = int32(i)
	}
	if s != nil {
		s[sl.Name.Name] = sh
	}
	return sh
}

// holds reports whether sl is the slice that was put up, or the same version of it come back from the API server.
func (sh *shelf) holds(sl *model.EndpointSlice) bool {
	return sh.slice == sl || sl.ResourceVersion != "" && sh.slice.ResourceVersion == sl.ResourceVersion &&
		sh.slice.UID == sl.UID && len(sh.slice.Endpoints) == len(sl.Endpoints)
}

// find returns the places of those of the Pods that stand here, in order.
func (sh *shelf) find(pods []string) (out []int32) {
	for _, name := range pods {
		if i, ok := sh.at[name]; ok {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}

// keepOnly forgets all slices but those.
func (s Shelves) keepOnly(list []*model.EndpointSlice) {
	if len(s) <= len(list) {
		return
	}
	there := make(map[string]bool, len(list))
	for _, sl := range list {
		there[sl.Name.Name] = true
	}
	for name := range s {
		if !there[name] {
			delete(s, name)
		}
	}
}
