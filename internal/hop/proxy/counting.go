package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/model"
)

// triggerTime is the annotation in which the endpoint controller says when the change of a Pod or Service happened that
// made it write the slice.
const triggerTime = "endpoints.kubernetes.io/last-change-trigger-time"

// families are those of the node, which are those of its Services.
func families(n *Node) []string {
	var out []string
	if n.primary(true).IsValid() || len(n.LocalPods(true).In) > 0 {
		out = append(out, family4)
	}
	if n.primary(false).IsValid() || len(n.LocalPods(false).In) > 0 {
		out = append(out, family6)
	}
	if len(out) == 0 {
		return []string{family4}
	}
	return out
}

// begin notes what an Apply is about to do.
func (m *Metrics) begin(s *model.Snapshot, p *Plan, c model.Change, decided int) {
	if m == nil {
		return
	}
	m.pending = c
	for _, f := range families(&p.Node) {
		m.lastQueued.WithLabelValues(f).Set(float64(s.Time.UnixNano()) / 1e9)
	}
	m.servicePending.Set(float64(decided))
	m.endpointPending.Set(float64(decided))
}

// failed notes an Apply that failed; p is what it wanted.
func (m *Metrics) failed(b Backend, p *Plan) {
	if m == nil {
		return
	}
	for _, f := range families(&p.Node) {
		if m.nftFailures != nil {
			m.nftFailures.WithLabelValues(f).Inc()
		}
	}
	m.iptables(b)
}

func (m *Metrics) checked(drift string) {
	if m != nil && drift != "" {
		m.numDrifted.Inc()
	}
}

// outcome is what an Apply without error did.
type outcome struct {
	done            Applied
	deleted         int // connections
	took, reconcile time.Duration
}

// end notes an Apply without error.
func (m *Metrics) end(b Backend, s *model.Snapshot, p *Plan, o outcome) {
	if m == nil {
		return
	}
	now := time.Now()
	services, endpoints := m.changes(s)
	m.serviceChanges.Add(float64(services))
	m.endpointChanges.Add(float64(endpoints))
	m.servicePending.Set(0)
	m.endpointPending.Set(0)
	kind := m.syncPartial
	if o.done.Full {
		kind = m.syncFull
	}
	for _, f := range families(&p.Node) {
		m.sync.WithLabelValues(f).Observe(o.took.Seconds())
		if kind != nil {
			kind.WithLabelValues(f).Observe(o.took.Seconds())
		}
		m.reconcile.WithLabelValues(f).Observe(o.reconcile.Seconds())
		m.lastDone.WithLabelValues(f).Set(float64(now.UnixNano()) / 1e9)
		m.start(f)
	}
	m.deleted.WithLabelValues(families(&p.Node)[0]).Add(float64(o.deleted))
	m.numServices.Set(float64(p.Services.Len()))
	m.numWritten.Add(float64(o.done.Changed))
	m.triggers(s, now)
	m.localless(p)
	m.iptables(b)
	m.last = s
}

// start makes the counters of a family there from the first moment on: a counter that appears with its first failure tells
// no rate.
func (m *Metrics) start(family string) {
	for _, c := range []*prometheus.CounterVec{m.deleted, m.nftFailures, m.nftCleanup, m.ipt.failures, m.ipt.partialFailures} {
		if c != nil {
			c.WithLabelValues(family)
		}
	}
}

// iptables takes over what a backend that restores iptables counted.
func (m *Metrics) iptables(b Backend) {
	c, ok := b.(IPTablesCounter)
	if !ok || m.ipt.failures == nil {
		return
	}
	now := c.IPTablesCounts()
	for f, n := range now.Failures {
		m.ipt.failures.WithLabelValues(f).Add(float64(max(0, n-m.ipt.counted.Failures[f])))
	}
	if m.ipt.rules != nil {
		for f, n := range now.PartialFailures {
			m.ipt.partialFailures.WithLabelValues(f).Add(float64(max(0, n-m.ipt.counted.PartialFailures[f])))
		}
		for t, n := range now.Rules {
			m.ipt.rules.WithLabelValues(t.Table, t.Family).Set(float64(n))
		}
		for t, n := range now.Written {
			m.ipt.written.WithLabelValues(t.Table, t.Family).Set(float64(n))
		}
	}
	m.ipt.counted = now
}

// changes counts the Services whose object, and those whose endpoints, differ from the last snapshot.
func (m *Metrics) changes(s *model.Snapshot) (services, endpoints int) {
	if m.last == nil {
		return s.Services.Len(), s.Services.Len()
	}
	for _, n := range m.pending.Services {
		if m.last.Services.At(n) != s.Services.At(n) {
			services++
		}
		if m.last.Backends(n) != s.Backends(n) {
			endpoints++
		}
	}
	return services, endpoints
}

// triggers observes how long changes took that began while this process was running.
func (m *Metrics) triggers(s *model.Snapshot, now time.Time) {
	if m.last == nil || m.pending.All {
		return
	}
	for _, n := range m.pending.Services {
		b := s.Backends(n)
		if b == nil {
			continue
		}
		for _, slice := range b.Slices {
			if m.last.Slices.At(slice.Name) == slice {
				continue
			}
			if at, err := time.Parse(time.RFC3339Nano, slice.Annotations[triggerTime]); err == nil {
				m.programming.WithLabelValues(slice.AddressType).Observe(max(0, now.Sub(at).Seconds()))
			}
		}
	}
}

// localless tells ports apart whose Local policy leaves this node without an endpoint.
type localless struct{ policy, family string }

// localless brings the counts of such ports up to date by the Services that changed.
func (m *Metrics) localless(p *Plan) {
	var old model.Map[model.Name, *Service]
	if m.plan != nil {
		old = m.plan.Services
	} else {
		m.without = map[localless]int{}
		for _, f := range families(&p.Node) {
			m.without[localless{"internal", f}], m.without[localless{"external", f}] = 0, 0
		}
	}
	model.Changed(old, p.Services, func(n model.Name) {
		old.At(n).localless(m.without, -1)
		p.Services.At(n).localless(m.without, 1)
	})
	m.plan = p
	for k, n := range m.without {
		m.noLocal.WithLabelValues(k.policy, k.family).Set(float64(n))
	}
}

func (s *Service) localless(count map[localless]int, by int) {
	if s == nil {
		return
	}
	for _, port := range s.Ports {
		if len(port.Local) > 0 || !port.Any {
			continue
		}
		if port.InternalLocal {
			count[localless{"internal", family(port.Is4())}] += by
		}
		if port.ExternalLocal {
			count[localless{"external", family(port.Is4())}] += by
		}
	}
}
