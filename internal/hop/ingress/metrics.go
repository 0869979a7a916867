package ingress

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/ingress/certs"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// metrics is what is counted. No label ever holds an address, a host or a path: they are the client's to choose.
type metrics struct {
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	inFlight   prometheus.Gauge
	retries    *prometheus.CounterVec
	upstream   *prometheus.CounterVec
	refused    *prometheus.CounterVec
	handshakes *prometheus.CounterVec
	generation prometheus.Gauge
	hosts      prometheus.Gauge
	swap       prometheus.Histogram
}

func newMetrics() *metrics {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "podway", Subsystem: "ingress", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "podway", Subsystem: "ingress", Name: name, Help: help})
	}
	return &metrics{
		requests: count("requests_total", "Requests answered, by the Ingress whose rule matched; empty = none did.", "namespace", "ingress", "code"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "podway", Subsystem: "ingress", Name: "request_duration_seconds",
			Help: "Time from a request's head to the last byte of its answer.", Buckets: prometheus.ExponentialBuckets(0.001, 3, 10)}, []string{"namespace", "ingress"}),
		inFlight:   gauge("requests_in_flight", "Requests and upgraded connections being served."),
		retries:    count("retries_total", "Requests that were sent to another endpoint after a failure.", "namespace", "service"),
		upstream:   count("upstream_errors_total", "Exchanges with an endpoint that failed, by reason.", "namespace", "service", "reason"),
		refused:    count("refused_requests_total", "Requests that broke the rules of HTTP or had no single meaning.", "reason"),
		handshakes: count("tls_handshakes_total", "TLS handshakes by result; ok = it went well.", "result"),
		generation: gauge("table_generation", "Revision of the snapshot that is served."),
		hosts:      gauge("table_hosts", "Hosts with rules."),
		swap: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "podway", Subsystem: "ingress", Name: "table_swap_duration_seconds",
			Help: "Time to bring routes and certificates in line with a new snapshot.", Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10)}),
	}
}

func (h *Hop) register(r prometheus.Registerer) error {
	m := h.metrics
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.inFlight, m.retries, m.upstream, m.refused, m.handshakes,
		m.generation, m.hosts, m.swap, expiry{h.store}} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// Began implements nethttp.Observer, as do the next ones.
func (m *metrics) Began() { m.inFlight.Inc() }

func (m *metrics) Done(r *routes.Route, status int, took time.Duration) {
	m.inFlight.Dec()
	var of model.Name
	if r != nil {
		of = r.Ingress
	}
	m.requests.WithLabelValues(of.Namespace, of.Name, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(of.Namespace, of.Name).Observe(took.Seconds())
}

func (m *metrics) Retried(s model.Name) { m.retries.WithLabelValues(s.Namespace, s.Name).Inc() }

func (m *metrics) UpstreamFailed(s model.Name, reason string) {
	m.upstream.WithLabelValues(s.Namespace, s.Name, reason).Inc()
}

func (m *metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

func (m *metrics) Handshake(reason string) {
	if reason == "" {
		reason = "ok"
	}
	m.handshakes.WithLabelValues(reason).Inc()
}

func (m *metrics) applied(t *routes.Table, r hop.Report) {
	m.generation.Set(float64(t.Rev()))
	m.hosts.Set(float64(t.Hosts()))
	m.swap.Observe(r.Took.Seconds())
}

// forget drops the series of Ingresses and Services that are gone, so that they do not pile up.
func (m *metrics) forget(old, now *model.Snapshot) {
	model.Changed(old.Ingresses, now.Ingresses, func(n model.Name) {
		if now.Ingresses.At(n) == nil {
			labels := prometheus.Labels{"namespace": n.Namespace, "ingress": n.Name}
			m.requests.DeletePartialMatch(labels)
			m.duration.DeletePartialMatch(labels)
		}
	})
	model.Changed(old.Services, now.Services, func(n model.Name) {
		if now.Services.At(n) == nil {
			labels := prometheus.Labels{"namespace": n.Namespace, "service": n.Name}
			m.retries.DeletePartialMatch(labels)
			m.upstream.DeletePartialMatch(labels)
		}
	})
}

// expiry tells when the certificates being served end, read from the store when asked.
type expiry struct{ store *certs.Store }

var expiryDesc = prometheus.NewDesc("podway_ingress_certificate_expiry_timestamp_seconds",
	"End of the certificate that is served from a Secret.", []string{"namespace", "secret"}, nil)

func (e expiry) Describe(ch chan<- *prometheus.Desc) { ch <- expiryDesc }

func (e expiry) Collect(ch chan<- prometheus.Metric) {
	ends := map[model.Name]time.Time{}
	add := func(_ string, c *certs.Cert) {
		if end, ok := ends[c.Secret]; !ok || c.NotAfter().Before(end) {
			ends[c.Secret] = c.NotAfter()
		}
	}
	e.store.All(add)
	if c := e.store.Default(); !e.store.IsSelfSigned(c) {
		add("", c)
	}
	for n, end := range ends {
		ch <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(end.Unix()), n.Namespace, n.Name)
	}
}
