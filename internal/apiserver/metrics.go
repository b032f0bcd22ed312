package apiserver

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// Metrics counts what a server and its store do. It is a prometheus.Collector. What
// k8s.io/apiserver counts by itself, requests and their duration among others, is at the path
// /metrics of the server, for callers that may read it. All methods work on nil.
type Metrics struct {
	store     *watchstore.Store
	watchers  *prometheus.Desc
	ready     *prometheus.Desc
	delivered *prometheus.CounterVec
	cutOff    *prometheus.CounterVec
	reports   prometheus.Counter
	refused   *prometheus.CounterVec
	limited   *prometheus.CounterVec
	reviews   *prometheus.CounterVec
	panics    *prometheus.CounterVec
}

// NewMetrics returns metrics of a store and of the server that serves it, not registered anywhere
// yet.
func NewMetrics(store *watchstore.Store) *Metrics {
	resource := []string{"resource"}
	return &Metrics{
		store:    store,
		watchers: prometheus.NewDesc("nephele_api_watchers", "Watches of computed objects that are running.", resource, nil),
		ready:    prometheus.NewDesc("nephele_api_ready", "1 when everything known has been computed once, so that watches get something.", nil, nil),
		delivered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_api_events_total", Help: "Events that were handed to watches, with the one bookmark of each.",
		}, []string{"resource", "type"}),
		cutOff: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_api_watchers_cut_off_total", Help: "Watches that were ended because their receiver had fallen too far behind.",
		}, resource),
		reports: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nephele_api_reports_total", Help: "Statuses of policies that enforcers have posted.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_api_refused_total", Help: "Requests that were refused because the caller may not act for the enforcer they are about.",
		}, resource),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_api_limited_total", Help: "What was refused because there is too much of it: connections, headers, requests, watches.",
		}, []string{"what"}),
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_api_reviews_total", Help: "Questions to webhooks, by the code of the answer.",
		}, []string{"code"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_api_panics_total", Help: "Panics in answers that were recovered, by what was asked for.",
		}, []string{"what"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	c <- m.watchers
	c <- m.ready
	m.delivered.Describe(c)
	m.cutOff.Describe(c)
	m.reports.Describe(c)
	m.refused.Describe(c)
	m.limited.Describe(c)
	m.reviews.Describe(c)
	m.panics.Describe(c)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, r := range watchstore.Resources() {
		c <- prometheus.MustNewConstMetric(m.watchers, prometheus.GaugeValue, float64(m.store.Watchers(r)), string(r))
	}
	ready := 1.0
	if _, _, err := m.store.Get(watchstore.NetworkPolicies, ""); err != nil {
		ready = 0
	}
	c <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, ready)
	m.delivered.Collect(c)
	m.cutOff.Collect(c)
	m.reports.Collect(c)
	m.refused.Collect(c)
	m.limited.Collect(c)
	m.reviews.Collect(c)
	m.panics.Collect(c)
}

func (m *Metrics) event(r watchstore.Resource, t watch.EventType) {
	if m != nil {
		m.delivered.WithLabelValues(string(r), string(t)).Inc()
	}
}

// ended counts a watch that has ended for a reason.
func (m *Metrics) ended(r watchstore.Resource, reason error) {
	if m != nil && errors.Is(reason, watchstore.ErrCutOff) {
		m.cutOff.WithLabelValues(string(r)).Inc()
	}
}

// counting returns Reports that are counted.
func (m *Metrics) counting(next Reports) Reports {
	if m == nil {
		return next
	}
	return countedReports{next, m.reports}
}

type countedReports struct {
	next  Reports
	count prometheus.Counter
}

// Report implements Reports.
func (r countedReports) Report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) error {
	r.count.Inc()
	return r.next.Report(ctx, s)
}

// refuse counts a request for a resource that a caller may not make for an enforcer.
func (m *Metrics) refuse(resource string) {
	if m != nil {
		m.refused.WithLabelValues(resource).Inc()
	}
}

// limit counts something that there is too much of.
func (m *Metrics) limit(what string) {
	if m != nil {
		m.limited.WithLabelValues(what).Inc()
	}
}

// panicked counts a panic that was recovered.
func (m *Metrics) panicked(what string) {
	if m != nil {
		m.panics.WithLabelValues(what).Inc()
	}
}

// countingReviews returns a webhook whose answers are counted.
func (m *Metrics) countingReviews(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return promhttp.InstrumentHandlerCounter(m.reviews, next)
}
