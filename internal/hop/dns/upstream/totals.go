package upstream

import "github.com/prometheus/client_golang/prometheus"

// totals are the sums of all Forwarders with one label.
type totals struct {
	success, denial, stale, misses uint64
	prefetched, hedged, evicted    uint64
	entries, negative, bytes       int
}

type zoneTotals map[string]*totals

func (z *zoneTotals) of(zones string) *totals {
	if *z == nil {
		*z = zoneTotals{}
	}
	if (*z)[zones] == nil {
		(*z)[zones] = &totals{}
	}
	return (*z)[zones]
}

func (t *totals) add(f *Forwarder) {
	success, denial, stale := f.counts.hits()
	t.success += success
	t.denial += denial
	t.stale += stale
	t.misses += f.counts.misses.Load()
	t.prefetched += f.counts.prefetched.Load()
	t.hedged += f.counts.hedged.Load()
	if f.cache != nil {
		s := f.cache.Stats()
		t.entries += s.Entries
		t.negative += s.Negative
		t.bytes += s.Bytes
		t.evicted += s.Evicted
	}
}

func (t *totals) collect(ch chan<- prometheus.Metric, counter func(*prometheus.Desc, uint64, ...string), zones string) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(descEntries, t.entries-t.negative, serverLabel, "success", zones, "")
	gauge(descEntries, t.negative, serverLabel, "denial", zones, "")
	gauge(descBytes, t.bytes, zones)
	counter(descHits, t.success+t.stale, serverLabel, "success", zones, "")
	counter(descHits, t.denial, serverLabel, "denial", zones, "")
	counter(descMisses, t.misses, serverLabel, zones, "")
	counter(descRequests, t.success+t.denial+t.stale+t.misses, serverLabel, zones, "")
	counter(descPrefetch, t.prefetched, serverLabel, zones, "")
	counter(descStale, t.stale, serverLabel, zones, "")
	counter(descEvicted, t.evicted, serverLabel, "success", zones, "")
	counter(descHedged, t.hedged, zones)
}
