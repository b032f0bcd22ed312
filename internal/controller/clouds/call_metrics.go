package clouds

import (
	"github.com/prometheus/client_golang/prometheus"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/pace"
)

// callMetrics counts the calls of all accounts of one cloud. The clouds share the names of their
// metrics and differ in the label provider.
type callMetrics struct {
	calls  *prometheus.CounterVec
	waited *prometheus.CounterVec
}

func newCallMetrics(provider cloudv1.CloudProvider) *callMetrics {
	of := prometheus.Labels{"provider": string(provider)}
	return &callMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_cloud_calls_total", ConstLabels: of,
			Help: "Calls to the cloud, every attempt, by its number of the account and result: ok, or the class of the error (Throttled, Auth, ...).",
		}, []string{"owner", "region", "action", "result"}),
		waited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_cloud_paced_seconds_total", ConstLabels: of, Help: "Time for which calls were held back to stay below the rate of the account.",
		}, []string{"owner", "region", "action"}),
	}
}

func (m *callMetrics) ended(e pace.Event) {
	result := string(e.Class)
	if result == "" {
		result = "ok"
	}
	m.calls.WithLabelValues(e.Account, e.Region, e.Action, result).Inc()
	m.waited.WithLabelValues(e.Account, e.Region, e.Action).Add(e.Waited.Seconds())
}

// Describe implements prometheus.Collector.
func (m *callMetrics) Describe(c chan<- *prometheus.Desc) {
	m.calls.Describe(c)
	m.waited.Describe(c)
}

// Collect implements prometheus.Collector.
func (m *callMetrics) Collect(c chan<- prometheus.Metric) {
	m.calls.Collect(c)
	m.waited.Collect(c)
}
