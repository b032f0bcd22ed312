package control

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/policy/compute"
)

// Metrics counts what controllers do. It is a prometheus.Collector. The queue of what is written to
// the Kubernetes API is among the metrics of client-go as workqueue_*{name="policy-status"}. All
// methods work on nil.
type Metrics struct {
	rounds   prometheus.Histogram
	inputs   prometheus.Counter
	changes  *prometheus.CounterVec
	problems prometheus.Counter
}

// NewMetrics returns metrics that are counted and not registered anywhere yet.
func NewMetrics() *Metrics {
	return &Metrics{
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nephele_policy_round_seconds", Help: "How long it took to compute what arrived together, and to hand it to watchers.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		inputs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nephele_policy_inputs_total", Help: "Changes of objects of the cluster that were computed.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_policy_changes_total", Help: "Changes of computed objects that came of it.",
		}, []string{"resource"}),
		problems: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nephele_policy_problems_total", Help: "Changes of what is wrong with policies and groups; a problem that is gone counts as well.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, v := range m.all() {
		v.Describe(c)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, v := range m.all() {
		v.Collect(c)
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.rounds, m.inputs, m.changes, m.problems}
}

// round counts one round.
func (m *Metrics) round(inputs int, c *compute.Changes, took time.Duration) {
	if m == nil {
		return
	}
	policies, addressGroups, appliedToGroups, problems := c.Size()
	m.rounds.Observe(took.Seconds())
	m.inputs.Add(float64(inputs))
	m.changes.WithLabelValues("networkpolicies").Add(float64(policies))
	m.changes.WithLabelValues("addressgroups").Add(float64(addressGroups))
	m.changes.WithLabelValues("appliedtogroups").Add(float64(appliedToGroups))
	m.problems.Add(float64(problems))
}
