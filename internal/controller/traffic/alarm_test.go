package traffic

import (
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/flows/live"
)

// alarmed takes what a Alarm tells.
type alarmed struct {
	policies map[types.UID]control.Differing
	events   []string
}

func (a *alarmed) Differ(policies map[types.UID]control.Differing) { a.policies = policies }

func (a *alarmed) Eventf(o, _ runtime.Object, kind, reason, _, _ string, _ ...any) {
	m := o.(*metav1.PartialObjectMetadata)
	a.events = append(a.events, kind+" "+reason+" "+m.APIVersion+" "+m.Kind+" "+m.Namespace+"/"+m.Name+" "+string(m.UID))
}

// TestTrafficAlarm: policies and events tell once that traffic differs, and once that it agrees
// again.
func TestTrafficAlarm(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	tr := New(0, nil, clk)
	var told alarmed
	a := NewAlarm(tr, &told, &told, clk, logr.Discard())
	want := func(step string, events int, policies map[types.UID]control.Differing) {
		t.Helper()
		a.look()
		if len(told.events) != events || len(told.policies) != len(policies) {
			t.Errorf("%s: %q, %v", step, told.events, told.policies)
		}
		for uid, d := range policies {
			if told.policies[uid] != d {
				t.Errorf("%s: %s: %v, want %v", step, uid, told.policies[uid], d)
			}
		}
	}
	leak := func(by int32) {
		t.Helper()
		at := metav1.NewMicroTime(clk.Now())
		err := tr.Add("vms/host", &analysis.TrafficReportSpec{Since: at, Until: at,
			Causes: []analysis.TrafficCause{{Cause: "Policy", UID: "u", Rule: "web"}, {Cause: "Isolation", UID: "k"}, {Cause: "Frame"}},
			Traffic: []analysis.ReportedTraffic{
				{Direction: "In", Client: "192.0.2.7", Server: "10.0.0.1", Protocol: 6, Port: 22, Verdict: "Allow", By: by, Connections: 1, Differs: "Leaks"},
			},
		}, func(uid string) (string, string, string, bool) {
			if uid == "k" {
				return "K8sNetworkPolicy", "shop", "all", true
			}
			return "AntreaNetworkPolicy", "shop", "db", true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want("quiet", 0, nil)
	leak(0)
	u := control.Differing{Reason: "Leaks", Message: `since 2030-01-02T03:04:05Z connections pass that rule "web" drops, the first from 192.0.2.7 to 10.0.0.1:22 (TCP), seen by vms/host`}
	want("a leak", 1, map[types.UID]control.Differing{"u": u})
	clk.Step(5 * time.Minute)
	leak(0)
	leak(1)
	leak(2) // no policy: the metric and the log tell it
	k := control.Differing{Reason: "Leaks", Message: "since 2030-01-02T03:09:05Z connections pass that the policy drops because it isolates, the first from 192.0.2.7 to 10.0.0.1:22 (TCP), seen by vms/host"}
	want("the same, and another", 2, map[types.UID]control.Differing{"u": u, "k": k})
	clk.Step(live.Standing)
	want("still", 2, map[types.UID]control.Differing{"u": u, "k": k})
	clk.Step(time.Second)
	want("over", 4, nil)
	slices.Sort(told.events)
	if !slices.Equal(told.events, []string{
		"Normal TrafficAgrees crd.antrea.io/v1beta1 NetworkPolicy shop/db u", "Normal TrafficAgrees networking.k8s.io/v1 NetworkPolicy shop/all k",
		"Warning TrafficDiffers crd.antrea.io/v1beta1 NetworkPolicy shop/db u", "Warning TrafficDiffers networking.k8s.io/v1 NetworkPolicy shop/all k",
	}) {
		t.Errorf("%q", told.events)
	}
}
