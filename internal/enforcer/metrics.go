package enforcer

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/watch"
)

// Metrics counts what enforcers of this process do. All methods work on nil.
type Metrics struct {
	watches *prometheus.CounterVec
	synced  *prometheus.GaugeVec
	events  *prometheus.CounterVec
	reports *prometheus.CounterVec
}

// What became of a report.
const (
	reportTaken   = "taken"
	reportRefused = "refused"
	reportFailed  = "failed"
)

// NewMetrics returns metrics that are counted and not registered anywhere yet.
func NewMetrics() *Metrics {
	return &Metrics{
		watches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_enforcer_watches_total", Help: "Watches of computed objects that were begun; all but the first one of a key and resource are reconnects.",
		}, []string{"key", "resource"}),
		synced: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_enforcer_in_sync", Help: "1 while the computed objects of a key are known and being watched; while it is 0, the last known ones stay in force.",
		}, []string{"key", "resource"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_enforcer_events_total", Help: "Events that were received.",
		}, []string{"resource", "type"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_enforcer_reports_total", Help: "Statuses of policies that were posted, by what became of them: taken, refused (not repeated), failed (repeated).",
		}, []string{"result"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(c)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(c)
	}
}

func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.watches, m.synced, m.events, m.reports}
}

func (m *Metrics) begins(key string, r Resource) {
	if m != nil {
		m.watches.WithLabelValues(key, string(r)).Inc()
	}
}

func (m *Metrics) inSync(key string, r Resource, yes bool) {
	if m == nil {
		return
	}
	value := 0.0
	if yes {
		value = 1
	}
	m.synced.WithLabelValues(key, string(r)).Set(value)
}

func (m *Metrics) event(r Resource, t watch.EventType) {
	if m != nil {
		m.events.WithLabelValues(string(r), string(t)).Inc()
	}
}

func (m *Metrics) report(result string) {
	if m != nil {
		m.reports.WithLabelValues(result).Inc()
	}
}

// forget drops what belongs to a key that is no longer followed.
func (m *Metrics) forget(key string) {
	if m != nil {
		m.watches.DeletePartialMatch(prometheus.Labels{"key": key})
		m.synced.DeletePartialMatch(prometheus.Labels{"key": key})
	}
}
