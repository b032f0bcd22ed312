package history

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what a Recorder does. A nil *Metrics counts nothing.
type Metrics struct {
	written, dropped, refused prometheus.Counter
	number, bytes, failing    prometheus.Gauge
}

// NewMetrics returns metrics to be registered.
func NewMetrics() *Metrics {
	return &Metrics{
		written: prometheus.NewCounter(prometheus.CounterOpts{Name: "nephele_history_recorded_total", Help: "Revisions of policies that were recorded."}),
		dropped: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "nephele_history_lost_total", Help: "Deletions of policies that were not recorded, because too many came at once."},
		),
		refused: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "nephele_history_unwritten_total", Help: "Results that the API server refused to take into a revision."},
		),
		failing: prometheus.NewGauge(prometheus.GaugeOpts{Name: "nephele_history_failing", Help: "1 while revisions cannot be written, which is tried again and again."}),
		number:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "nephele_history_revisions", Help: "Revisions that are kept."}),
		bytes:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "nephele_history_bytes", Help: "What the revisions that are kept take, about."}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.written, m.dropped, m.refused, m.number, m.bytes, m.failing} {
		c.Collect(to)
	}
}

func (m *Metrics) recorded() {
	if m != nil {
		m.written.Inc()
	}
}

func (m *Metrics) lost() {
	if m != nil {
		m.dropped.Inc()
	}
}

func (m *Metrics) unwritten() {
	if m != nil {
		m.refused.Inc()
	}
}

// fails says whether writing fails at present.
func (m *Metrics) fails(now bool) {
	if m == nil {
		return
	}
	m.failing.Set(0)
	if now {
		m.failing.Set(1)
	}
}

func (m *Metrics) kept(n int, size int64) {
	if m != nil {
		m.number.Set(float64(n))
		m.bytes.Set(float64(size))
	}
}
