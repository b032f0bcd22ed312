package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// stateMetrics shows what the API says of accounts and policies, as the informers tell it, and how
// long changes of policies take until they are in force. It is safe for concurrent use.
type stateMetrics struct {
	clock                      clock.PassiveClock
	conditions, ages, policies *prometheus.Desc
	converged                  *prometheus.HistogramVec

	mu       sync.Mutex
	accounts map[string]accountState
	known    map[types.UID]policyState
}

// accountState is what is shown of an account.
type accountState struct {
	conditions map[string]metav1.ConditionStatus
	read       map[string]time.Time // by region
}

// policyState is what is shown of a policy.
type policyState struct {
	kind       string
	phase      antreav1beta1.NetworkPolicyPhase
	generation int64
	// changed is when the generation was first seen; zero once it is in force, and for what was
	// there before.
	changed time.Time
}

func newStateMetrics(clk clock.PassiveClock) *stateMetrics {
	return &stateMetrics{
		clock: clk,
		conditions: prometheus.NewDesc("nephele_account_condition",
			"A condition of an account: 1 is True, 0 is False, -1 is Unknown.", []string{"account", "condition"}, nil),
		ages: prometheus.NewDesc("nephele_inventory_age_seconds",
			"How long ago a region was last read as a whole.", []string{"account", "region"}, nil),
		policies: prometheus.NewDesc("nephele_policies", "Policies by phase.", []string{"kind", "phase"}, nil),
		converged: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nephele_policy_convergence_seconds", Help: "Time from hearing of a change of a policy until all enforcers have it in force.",
			Buckets: []float64{.1, .2, .5, 1, 2, 5, 10, 20, 60, 180, 600, 1800, 3600},
		}, []string{"kind"}),
		accounts: map[string]accountState{}, known: map[types.UID]policyState{},
	}
}

// Describe implements prometheus.Collector.
func (m *stateMetrics) Describe(c chan<- *prometheus.Desc) {
	c <- m.conditions
	c <- m.ages
	c <- m.policies
	m.converged.Describe(c)
}

// Collect implements prometheus.Collector.
func (m *stateMetrics) Collect(c chan<- prometheus.Metric) {
	m.converged.Collect(c)
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	value := map[metav1.ConditionStatus]float64{metav1.ConditionTrue: 1, metav1.ConditionFalse: 0, metav1.ConditionUnknown: -1}
	now := m.clock.Now()
	for name, a := range m.accounts {
		for kind, status := range a.conditions {
			gauge(m.conditions, value[status], name, kind)
		}
		for region, at := range a.read {
			gauge(m.ages, now.Sub(at).Seconds(), name, region)
		}
	}
	type row struct {
		kind  string
		phase antreav1beta1.NetworkPolicyPhase
	}
	count := map[row]int{}
	for _, p := range m.known {
		count[row{p.kind, p.phase}]++
	}
	for r, n := range count {
		gauge(m.policies, float64(n), r.kind, string(r.phase))
	}
}

// account follows an account.
func (m *stateMetrics) account(a *cloudv1.CloudProviderAccount) {
	state := accountState{conditions: map[string]metav1.ConditionStatus{}, read: map[string]time.Time{}}
	for _, c := range a.Status.Conditions {
		state.conditions[c.Type] = c.Status
	}
	for _, r := range a.Status.Regions {
		if r.LastSyncTime != nil {
			state.read[r.Name] = r.LastSyncTime.Time
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts[a.Namespace+"/"+a.Name] = state
}

// policy follows a policy; initial says that it was there before this process.
func (m *stateMetrics) policy(o client.Object, initial bool) {
	next := policyState{generation: o.GetGeneration()}
	var status antreav1beta1.NetworkPolicyStatus
	next.kind, status = statusOf(o)
	next.phase = status.Phase
	if next.phase == "" {
		next.phase = antreav1beta1.NetworkPolicyPending
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, there := m.known[o.GetUID()]
	switch {
	case there && before.generation == next.generation:
		next.changed = before.changed
	case !initial:
		next.changed = m.clock.Now()
	}
	done := next.phase == antreav1beta1.NetworkPolicyRealized || next.phase == antreav1beta1.NetworkPolicyIdle
	if !next.changed.IsZero() && done && status.ObservedGeneration == next.generation {
		m.converged.WithLabelValues(next.kind).Observe(m.clock.Since(next.changed).Seconds())
		next.changed = time.Time{}
	}
	m.known[o.GetUID()] = next
}

func statusOf(o client.Object) (kind string, status antreav1beta1.NetworkPolicyStatus) {
	switch o := o.(type) {
	case *antreav1beta1.NetworkPolicy:
		return "AntreaNetworkPolicy", o.Status
	case *antreav1beta1.ClusterNetworkPolicy:
		return "AntreaClusterNetworkPolicy", o.Status
	}
	return "", status
}

// gone forgets an object.
func (m *stateMetrics) gone(o client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, o.GetUID())
	if _, ok := o.(*cloudv1.CloudProviderAccount); ok {
		delete(m.accounts, o.GetNamespace()+"/"+o.GetName())
	}
}

// follow hears of policies, and with clouds of accounts.
func (m *stateMetrics) follow(ctx context.Context, in informers, clouds bool) error {
	handler := toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { m.heard(o, initial) },
		UpdateFunc: func(_, after any) { m.heard(after, false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if o, ok := o.(client.Object); ok {
				m.gone(o)
			}
		},
	}
	all := []client.Object{&antreav1beta1.NetworkPolicy{}, &antreav1beta1.ClusterNetworkPolicy{}}
	if clouds {
		all = append(all, &cloudv1.CloudProviderAccount{})
	}
	for _, o := range all {
		informer, err := in.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(handler)
		}
		if err != nil {
			return fmt.Errorf("watch what metrics are about: %w", err)
		}
	}
	return nil
}

func (m *stateMetrics) heard(o any, initial bool) {
	if a, ok := o.(*cloudv1.CloudProviderAccount); ok {
		m.account(a)
	} else if o, ok := o.(client.Object); ok {
		m.policy(o, initial)
	}
}
