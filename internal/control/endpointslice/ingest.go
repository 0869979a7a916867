package endpointslice

import (
	"maps"
	"slices"
	"time"

	"github.com/podway/podway/internal/model"
)

// ingest takes a new snapshot in and notes which Services it concerns. It costs what changed.
func (c *Controller) ingest(s *model.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.snap
	if old == nil {
		old = &model.Snapshot{}
	}
	first := c.snap == nil
	c.snap = s
	model.Changed(old.Pods, s.Pods, func(n model.Name) { c.podChanged(old.Pods.At(n), s.Pods.At(n), first) })
	for _, n := range model.Diff(old, s).Services {
		c.serviceChanged(n, old, first)
	}
	shares := false
	model.Changed(old.Nodes, s.Nodes, func(n string) {
		shares = shares || !sameShare(old.Nodes.At(n), s.Nodes.At(n))
		c.nodeChanged(n, old.Nodes.At(n), s.Nodes.At(n))
	})
	if shares && !first {
		c.sharesChanged()
	}
}

func (c *Controller) podChanged(old, new *model.Pod, first bool) {
	touched := c.index.setPod(old, new)
	if first || samePod(old, new) {
		return // on the first snapshot each Service is looked at anyway
	}
	name, trigger := old, time.Time{}
	if new != nil {
		name = new
		if old == nil || new.ReadySince.After(old.ReadySince) {
			trigger = new.ReadySince
		}
	}
	for _, n := range touched {
		c.soil(n, name.Name.Name, trigger)
		c.endpoints.soon(n, trigger)
	}
}

// serviceChanged is called for a Service whose object or slices differ.
func (c *Controller) serviceChanged(n model.Name, oldSnap *model.Snapshot, first bool) {
	old, new := oldSnap.Services.At(n), c.snap.Services.At(n)
	foreign := c.settle(n, oldSnap)
	st := c.state(n)
	switch {
	case old != nil && new == nil:
		st.gone, c.endpoints.of(n).gone = true, true
		c.index.setService(old, nil)
	case old != new:
		st.gone, st.missing, c.endpoints.of(n).gone = false, time.Time{}, false
		c.index.setService(old, new)
	}
	if !sameService(old, new) || first {
		var trigger time.Time
		if old == nil && new != nil && !first {
			trigger = new.Created
		}
		c.soil(n, "", trigger)
		c.endpoints.soon(n, trigger)
	} else if foreign && st.writing {
		st.recheck = true
	} else if foreign {
		c.repair(n)
	}
}

func (c *Controller) nodeChanged(name string, old, new *model.Node) {
	if old != nil && new != nil && old.Zone == new.Zone {
		return
	}
	seen := set{}
	for p := range c.index.byNode[name] {
		for n := range c.index.selecting(c.index.pods[p]) {
			if _, ok := seen[n]; !ok {
				seen[n] = struct{}{}
				c.soil(n, "", time.Time{})
				c.endpoints.soon(n, time.Time{})
			}
		}
	}
}

// sharesChanged has the Services looked at whose hints go by the CPU of zones.
func (c *Controller) sharesChanged() {
	for n, svc := range c.index.services {
		if proportional(svc) {
			c.soil(n, "", time.Time{})
		}
	}
}

// sameShare reports whether a Node counts as much for its zone as before.
func sameShare(a, b *model.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Zone == b.Zone && a.Ready == b.Ready && a.CPU == b.CPU && isControlPlane(a) == isControlPlane(b)
}

// samePod reports whether two views of a Pod give the same endpoints.
func samePod(a, b *model.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Ready == b.Ready && a.Deleting == b.Deleting && a.Terminal() == b.Terminal() && a.Node == b.Node &&
		a.Hostname == b.Hostname && a.Subdomain == b.Subdomain && slices.Equal(a.Addrs, b.Addrs) &&
		slices.Equal(a.Ports, b.Ports) && maps.Equal(a.Labels, b.Labels)
}

// sameService reports whether two views of a Service ask for the same slices and Endpoints.
func sameService(a, b *model.Service) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return a.UID == b.UID && a.Deleting == b.Deleting && a.Type == b.Type && a.HasClusterIP() == b.HasClusterIP() &&
		a.PublishNotReady == b.PublishNotReady && a.TrafficDistribution == b.TrafficDistribution && proportional(a) == proportional(b) &&
		slices.Equal(a.IPFamilies, b.IPFamilies) && slices.Equal(a.Ports, b.Ports) &&
		maps.Equal(a.Selector, b.Selector) && maps.Equal(a.Labels, b.Labels)
}
