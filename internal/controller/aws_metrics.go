package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/cloud/aws/pace"
)

// awsMetrics counts the calls of all accounts to AWS.
type awsMetrics struct {
	calls  *prometheus.CounterVec
	waited *prometheus.CounterVec
}

func newAWSMetrics() *awsMetrics {
	return &awsMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_aws_calls_total", Help: "Calls to AWS, every attempt, by the cloud's account number and result: ok, or the class of the error (Throttled, Auth, ...).",
		}, []string{"owner", "region", "action", "result"}),
		waited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_aws_paced_seconds_total", Help: "Time for which calls were held back to stay below the rate of the account.",
		}, []string{"owner", "region", "action"}),
	}
}

func (m *awsMetrics) ended(e pace.Event) {
	result := string(e.Class)
	if result == "" {
		result = "ok"
	}
	m.calls.WithLabelValues(e.Account, e.Region, e.Action, result).Inc()
	m.waited.WithLabelValues(e.Account, e.Region, e.Action).Add(e.Waited.Seconds())
}

// Describe implements prometheus.Collector.
func (m *awsMetrics) Describe(c chan<- *prometheus.Desc) {
	m.calls.Describe(c)
	m.waited.Describe(c)
}

// Collect implements prometheus.Collector.
func (m *awsMetrics) Collect(c chan<- prometheus.Metric) {
	m.calls.Collect(c)
	m.waited.Collect(c)
}
