package endpointslice

import (
	"maps"
	"slices"

	"github.com/podway/podway/internal/model"
)

// index knows which Services select which Pods. A Pod that changes costs the Services that share a label with it, a
// Service that changes the Pods that have one of its labels.
type index struct {
	pods     map[model.Name]*model.Pod
	services map[model.Name]*model.Service
	byLabel  map[label]set // Pods
	byNode   map[string]set
	bySelect map[label]set            // Services, under one label of their selector
	selected map[model.Name]podByName // of each Service with a selector
}

type (
	label     struct{ namespace, key, value string }
	set       map[model.Name]struct{}
	podByName map[string]*model.Pod
)

func newIndex() *index {
	return &index{pods: map[model.Name]*model.Pod{}, services: map[model.Name]*model.Service{}, byLabel: map[label]set{},
		byNode: map[string]set{}, bySelect: map[label]set{}, selected: map[model.Name]podByName{}}
}

// setPod replaces old by new, either of which may be nil, and returns the Services that select one of them.
func (ix *index) setPod(old, new *model.Pod) []model.Name {
	touched := set{}
	if old != nil {
		ix.forget(old)
		for n := range ix.selecting(old) {
			delete(ix.selected[n], old.Name.Name)
			touched[n] = struct{}{}
		}
	}
	if new != nil {
		ix.pods[new.Name] = new
		put(ix.byNode, new.Node, new.Name)
		for k, v := range new.Labels {
			put(ix.byLabel, label{new.Name.Namespace, k, v}, new.Name)
		}
		for n := range ix.selecting(new) {
			ix.selected[n][new.Name.Name] = new
			touched[n] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(touched))
}

func (ix *index) forget(p *model.Pod) {
	delete(ix.pods, p.Name)
	drop(ix.byNode, p.Node, p.Name)
	for k, v := range p.Labels {
		drop(ix.byLabel, label{p.Name.Namespace, k, v}, p.Name)
	}
}

// setService replaces old by new, either of which may be nil.
func (ix *index) setService(old, new *model.Service) {
	if old != nil {
		delete(ix.services, old.Name)
		if l, ok := anchor(old); ok {
			drop(ix.bySelect, l, old.Name)
		}
	}
	if new == nil || len(new.Selector) == 0 {
		if old != nil {
			delete(ix.selected, old.Name)
		}
		if new != nil {
			ix.services[new.Name] = new
		}
		return
	}
	ix.services[new.Name] = new
	l, _ := anchor(new)
	put(ix.bySelect, l, new.Name)
	if old != nil && maps.Equal(old.Selector, new.Selector) {
		return
	}
	found := podByName{}
	for n := range ix.rarest(new) {
		if p := ix.pods[n]; selects(new, p) {
			found[n.Name] = p
		}
	}
	ix.selected[new.Name] = found
}

// selecting returns the Services that select the Pod.
func (ix *index) selecting(p *model.Pod) set {
	out := set{}
	for k, v := range p.Labels {
		for n := range ix.bySelect[label{p.Name.Namespace, k, v}] {
			if selects(ix.services[n], p) {
				out[n] = struct{}{}
			}
		}
	}
	return out
}

// members returns the Pods that a Service selects, in no order.
func (ix *index) members(service model.Name) []*model.Pod {
	return slices.Collect(maps.Values(ix.selected[service]))
}

// anchor is the one label of a selector under which the Service is found.
func anchor(svc *model.Service) (l label, ok bool) {
	for k, v := range svc.Selector {
		if !ok || k < l.key {
			l, ok = label{svc.Name.Namespace, k, v}, true
		}
	}
	return l, ok
}

// rarest is the smallest set of Pods that has them all.
func (ix *index) rarest(svc *model.Service) (best set) {
	first := true
	for k, v := range svc.Selector {
		if s := ix.byLabel[label{svc.Name.Namespace, k, v}]; first || len(s) < len(best) {
			best, first = s, false
		}
	}
	return best
}

func selects(svc *model.Service, p *model.Pod) bool {
	for k, v := range svc.Selector {
		if got, ok := p.Labels[k]; !ok || got != v {
			return false
		}
	}
	return svc.Name.Namespace == p.Name.Namespace
}

func put[K comparable](m map[K]set, k K, n model.Name) {
	s := m[k]
	if s == nil {
		s = set{}
		m[k] = s
	}
	s[n] = struct{}{}
}

func drop[K comparable](m map[K]set, k K, n model.Name) {
	delete(m[k], n)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}
