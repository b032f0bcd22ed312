package status

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestDriftStatus: the account says of each difference what somebody changed, since when, and what
// became of it.
func TestDriftStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	one := plan.Drift{Region: home, Object: "eni-1", Message: "somebody put the interface into sg-9"}
	kept := plan.Drift{Region: home, Object: "sg-1", Message: "somebody removed the rule: x", Kept: true}
	start := d.clock.Now()
	at := func(minute int) string {
		return start.Add(time.Duration(minute) * time.Minute).UTC().Format(time.RFC3339)
	}
	const oneText, keptText = ": eu-west-1 eni-1: somebody put the interface into sg-9", ": eu-west-1 sg-1: somebody removed the rule: x"
	for i, c := range []struct {
		drift         []plan.Drift
		pending       bool
		reason, wants string
		event         string
	}{
		{nil, false, "", "", ""},
		{[]plan.Drift{one}, true, "BeingRepaired", "since " + at(1) + oneText, "Drift"},
		{[]plan.Drift{one}, true, "BeingRepaired", "since " + at(1) + oneText, ""},
		{nil, true, "BeingRepaired", "since " + at(1) + oneText, ""},
		{nil, false, cloudv1.ReasonRepaired, "repaired at " + at(4) + ", seen at " + at(1) + oneText, "DriftRepaired"},
		{[]plan.Drift{kept}, false, cloudv1.ReasonKept, "since " + at(5) + keptText + " (left as it is)", "Drift"},
		{[]plan.Drift{kept, one}, false, "BeingRepaired", "since " + at(5) + keptText + " (left as it is); since " + at(6) + oneText, "Drift"},
		{[]plan.Drift{kept}, false, cloudv1.ReasonKept, "since " + at(5) + keptText + " (left as it is)", "DriftRepaired"},
		{nil, true, cloudv1.ReasonRepaired, "repaired at " + at(7) + ", seen at " + at(6) + oneText + "; undone at " + at(8) + ", seen at " + at(5) + keptText, "DriftUndone"},
		{nil, false, cloudv1.ReasonRepaired, "", ""},
	} {
		r := reportOf(nil, c.drift)
		if c.pending {
			r.Result.Plan.Steps = []plan.Step{{}}
		}
		d.write(r)
		d.clock.Step(time.Minute)
		cond := d.drift()
		switch {
		case c.reason == "" && cond == nil:
		case cond == nil, cond.Reason != c.reason, c.wants != "" && cond.Message != c.wants:
			t.Errorf("%d: drift %v: %+v, want %s %q", i, c.drift, cond, c.reason, c.wants)
		}
		var events []string
		for _, e := range d.events() {
			events = append(events, strings.Fields(e)[1])
		}
		if got := strings.Join(events, " "); got != c.event {
			t.Errorf("%d: events %q, want %q", i, got, c.event)
		}
	}
}

func (d *desk) drift() *metav1.Condition {
	d.Helper()
	var account cloudv1.CloudProviderAccount
	if err := d.client.Get(d.Context(), client.ObjectKey{Namespace: labNamespace, Name: "shop"}, &account); err != nil {
		d.Fatal(err)
	}
	return meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionDrift)
}

// TestDriftAfterRestart: a new process does not leave standing what the former one said, and does
// not say what it cannot know.
func TestDriftAfterRestart(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		d := newDesk(t, interceptor.Funcs{})
		d.write(reportOf(nil, []plan.Drift{{Region: home, Object: "eni-1", Message: "somebody did it", Kept: kept}}))
		d.run()
		d.write(reportOf(nil, nil))
		want, reason := metav1.ConditionFalse, cloudv1.ReasonRepaired
		if kept {
			want, reason = metav1.ConditionUnknown, cloudv1.ReasonRestarted
		}
		if cond := d.drift(); cond == nil || cond.Status != want || cond.Reason != reason || !strings.Contains(cond.Message, "somebody did it") {
			t.Errorf("kept %t: %+v", kept, cond)
		}
	}
}
