package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// recordedInformers keeps the handlers, one for each kind.
type recordedInformers struct {
	cache.Informer
	handlers []toolscache.ResourceEventHandler
}

func (r *recordedInformers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return r, nil
}

func (r *recordedInformers) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	r.handlers = append(r.handlers, h)
	return nil, nil
}

// shown is what is served of metrics: "name{label=value,...} value".
func shown(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			var labels []string
			for _, l := range x.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := fmt.Sprint(x.GetGauge().GetValue())
			if h := x.GetHistogram(); h != nil {
				value = fmt.Sprint(h.GetSampleCount(), " in ", h.GetSampleSum())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"} "+value] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// TestStateMetrics: the metrics have the conditions, ages and phases of the objects; the time that
// a change takes is counted once, from when it was heard of, and not for what was there before.
func TestStateMetrics(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	m := newStateMetrics(clk)
	informers := &recordedInformers{}
	if err := m.follow(t.Context(), informers, true); err != nil {
		t.Fatal(err)
	}
	if len(informers.handlers) != 3 {
		t.Fatalf("%d kinds are followed", len(informers.handlers))
	}
	h := informers.handlers[0]
	read := metav1.NewTime(clk.Now().Add(-time.Minute))
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"}, Status: cloudv1.CloudProviderAccountStatus{
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionFalse}, {Type: "SoleWriter", Status: metav1.ConditionTrue}, {Type: "Reachable", Status: metav1.ConditionUnknown},
		},
		Regions: []cloudv1.RegionStatus{{Name: "eu-west-1", LastSyncTime: &read}, {Name: "never"}},
	}}
	h.OnAdd(account, true)
	policy := func(uid types.UID, generation, observed int64, phase antreav1beta1.NetworkPolicyPhase) *antreav1beta1.NetworkPolicy {
		return &antreav1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid, Generation: generation},
			Status: antreav1beta1.NetworkPolicyStatus{Phase: phase, ObservedGeneration: observed}}
	}
	realized, failed := antreav1beta1.NetworkPolicyRealized, antreav1beta1.NetworkPolicyFailed
	h.OnAdd(policy("old", 1, 1, realized), true)
	h.OnAdd(policy("new", 1, 0, ""), false)
	h.OnAdd(&antreav1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "all", Generation: 1}, Status: antreav1beta1.NetworkPolicyStatus{Phase: failed}}, false)
	clk.Step(3 * time.Second)
	h.OnUpdate(nil, policy("new", 1, 1, realized))
	h.OnUpdate(nil, policy("new", 1, 1, realized)) // said twice
	h.OnUpdate(nil, policy("old", 2, 1, realized)) // the status is still that of the former generation
	clk.Step(2 * time.Second)
	h.OnUpdate(nil, policy("old", 2, 2, realized))
	want := []string{
		"nephele_account_condition{account=cloud/real,condition=Reachable} -1",
		"nephele_account_condition{account=cloud/real,condition=Ready} 0",
		"nephele_account_condition{account=cloud/real,condition=SoleWriter} 1",
		"nephele_inventory_age_seconds{account=cloud/real,region=eu-west-1} 65",
		"nephele_policies{kind=AntreaClusterNetworkPolicy,phase=Failed} 1",
		"nephele_policies{kind=AntreaNetworkPolicy,phase=Realized} 2",
		"nephele_policy_convergence_seconds{kind=AntreaNetworkPolicy} 2 in 5",
	}
	if got := shown(t, m); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	h.OnDelete(account)
	h.OnDelete(policy("new", 1, 1, realized))
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: policy("old", 2, 2, realized)})
	if got := shown(t, m); len(got) != 2 {
		t.Errorf("after deletions: %s", strings.Join(got, "\n"))
	}
}
