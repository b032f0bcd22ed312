package controller

import (
	"github.com/prometheus/client_golang/prometheus"
)

// setMetrics tells how this process stands with other clusters of the set.
type setMetrics struct {
	set     *set
	cluster *prometheus.Desc
	hub     *prometheus.Desc
}

func newSetMetrics(s *set) *setMetrics {
	return &setMetrics{s,
		prometheus.NewDesc("nephele_cluster_silent_seconds", "How long a member of the set was not heard of by its hub; 0 while it is connected.", []string{"cluster"}, nil),
		prometheus.NewDesc("nephele_hub_silent_seconds", "How long the hub of the set was not heard of by this member; 0 while it is connected.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *setMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.cluster
	out <- m.hub
}

// Collect implements prometheus.Collector.
func (m *setMetrics) Collect(out chan<- prometheus.Metric) {
	if m.set.hub != nil {
		for name, silent := range m.set.hub.Silent() {
			out <- prometheus.MustNewConstMetric(m.cluster, prometheus.GaugeValue, silent.Seconds(), name)
		}
	}
	if silent, is := m.set.member.Silent(); is {
		out <- prometheus.MustNewConstMetric(m.hub, prometheus.GaugeValue, silent.Seconds())
	}
}
