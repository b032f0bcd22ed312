package audit

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the lines of records. All methods work on nil.
type Metrics struct {
	lines *prometheus.CounterVec
}

// NewMetrics returns metrics that are counted and not registered anywhere yet.
func NewMetrics() *Metrics {
	m := &Metrics{lines: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nephele_audit_lines_total", Help: "Lines of the record of changes, by result: written to the file, or failed.",
	}, []string{"result"})}
	m.lines.WithLabelValues("written")
	m.lines.WithLabelValues("failed")
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { m.lines.Describe(c) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) { m.lines.Collect(c) }

func (m *Metrics) wrote(err error) {
	switch {
	case m == nil:
	case err != nil:
		m.lines.WithLabelValues("failed").Inc()
	default:
		m.lines.WithLabelValues("written").Inc()
	}
}
