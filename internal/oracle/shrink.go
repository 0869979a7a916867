package oracle

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// mostShrink bounds the time that goes into making one case small.
const mostShrink = 60 * time.Second

// shrink makes a case smaller while differs still says that it shows the same. Every candidate is played in worlds of its
// own, which proves at once that the case does not depend on what was before it.
func shrink(ctx context.Context, c *Case, differs func(context.Context, *Case) bool) *Case {
	ctx, cancel := context.WithTimeout(ctx, mostShrink)
	defer cancel()
	for again := true; again; {
		again = false
		for _, smaller := range candidates(c) {
			if ctx.Err() != nil {
				return c
			}
			if differs(ctx, smaller) {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}

// candidates are smaller cases, the most promising first.
func candidates(c *Case) (out []*Case) {
	add := func(f func(*Case)) {
		x := c.clone()
		f(x)
		out = append(out, x)
	}
	if n := len(c.Steps); n > 1 {
		add(func(x *Case) { // the last state alone
			x.Steps = x.Steps[n-1:]
			x.Steps[0].Restart, x.Steps[0].Fail = nil, nil
		})
		for i := range n - 1 {
			add(func(x *Case) {
				x.Steps = slices.Delete(x.Steps, i, i+1)
				x.Steps[0].Restart, x.Steps[0].Fail = nil, nil
			})
		}
	}
	for _, name := range c.named("Service") {
		add(func(x *Case) { x.drop(name, true) })
	}
	for _, name := range c.named("EndpointSlice") {
		add(func(x *Case) { x.drop(name, false) })
	}
	for i := range c.Steps {
		if len(c.Steps[i].Restart)+len(c.Steps[i].Fail) > 0 {
			add(func(x *Case) { x.Steps[i].Restart, x.Steps[i].Fail = nil, nil })
		}
	}
	for _, name := range c.named("Service") {
		for _, field := range c.fields(name) {
			add(func(x *Case) { x.without(name, field) })
		}
	}
	for _, name := range c.named("EndpointSlice") {
		for i := range 5 {
			if x := c.clone(); x.withoutEndpoint(name, i) {
				out = append(out, x)
			}
		}
	}
	return out
}

// named are the keys of a kind in any step.
func (c *Case) named(kind string) []string {
	all := map[string]bool{}
	for _, s := range c.Steps {
		for k := range s.Objects {
			if strings.HasPrefix(k, kind+" ") {
				all[k] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// drop takes an object out of every step, a Service with its slices.
func (c *Case) drop(name string, slicesToo bool) {
	for _, s := range c.Steps {
		delete(s.Objects, name)
		if _, service, _ := strings.Cut(name, " "); slicesToo {
			maps.DeleteFunc(s.Objects, func(k string, _ Doc) bool { return strings.HasPrefix(k, "EndpointSlice "+service+"-") })
		}
	}
}

// optional are the fields that a Service can do without.
var optional = []string{"internalTrafficPolicy", "externalTrafficPolicy", "sessionAffinity", "externalIPs", "loadBalancerSourceRanges",
	"allocateLoadBalancerNodePorts", "healthCheckNodePort"}

func (c *Case) fields(name string) (out []string) {
	for _, f := range optional {
		for _, s := range c.Steps {
			if o := s.Objects[name]; o != nil && o["spec"].(Doc)[f] != nil {
				out = append(out, f)
				break
			}
		}
	}
	return out
}

func (c *Case) without(name, field string) {
	for _, s := range c.Steps {
		if o := s.Objects[name]; o != nil {
			o = maps.Clone(o)
			spec := maps.Clone(o["spec"].(Doc))
			delete(spec, field)
			if field == "externalTrafficPolicy" {
				delete(spec, "healthCheckNodePort")
			}
			o["spec"] = spec
			s.Objects[name] = o
		}
	}
}

// withoutEndpoint takes the i-th endpoint out of a slice in every step that has so many; false when none has.
func (c *Case) withoutEndpoint(name string, i int) (did bool) {
	for _, s := range c.Steps {
		o := s.Objects[name]
		if o == nil {
			continue
		}
		eps, _ := o["endpoints"].([]any)
		if i >= len(eps) {
			continue
		}
		o = maps.Clone(o)
		o["endpoints"] = slices.Delete(slices.Clone(eps), i, i+1)
		s.Objects[name], did = o, true
	}
	return did
}
