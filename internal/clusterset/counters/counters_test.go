package counters

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
)

// TestCounters: what an Antrea Controller has counted is known by policy and rule, some time after
// somebody has asked, and is not read otherwise.
func TestCounters(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := statsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := metav1.ObjectMeta{Namespace: "shop", Name: "hub-p"}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&statsv1alpha1.AntreaClusterNetworkPolicyStats{ObjectMeta: metav1.ObjectMeta{Name: "hub-p"}, TrafficStats: statsv1alpha1.TrafficStats{Packets: 7, Bytes: 700, Sessions: 3},
			RuleTrafficStats: []statsv1alpha1.RuleTrafficStats{{Name: "r", TrafficStats: statsv1alpha1.TrafficStats{Packets: 5}}}},
		&statsv1alpha1.AntreaNetworkPolicyStats{ObjectMeta: named, TrafficStats: statsv1alpha1.TrafficStats{Sessions: 2}},
		&statsv1alpha1.NetworkPolicyStats{ObjectMeta: named, TrafficStats: statsv1alpha1.TrafficStats{Sessions: 1}},
	).Build()
	clk := clocktesting.NewFakeClock(time.Now())
	c := New(api, clk, logr.Discard())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Start(t.Context()) }()
	wide := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hub-p"}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if got, is := c.Of(wide); is {
			if got.Packets != 7 || got.Sessions != 3 || len(got.Rules) != 1 || got.Rules[0].Name != "r" || got.Rules[0].Packets != 5 {
				t.Errorf("%+v", got)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing is read")
		}
		clk.Step(pause)
	}
	for o, want := range map[client.Object]int64{&v1beta1.NetworkPolicy{ObjectMeta: named}: 2, &networkingv1.NetworkPolicy{ObjectMeta: named}: 1} {
		if got, is := c.Of(o); !is || got.Sessions != want {
			t.Errorf("%T: %+v", o, got)
		}
	}
	if _, is := c.Of(&v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}}); is {
		t.Error("something is known of what was not counted")
	}
}
