package realize

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestPlanInputIsWhole: an account of which everything is known sets every field of the input but
// those that only the worker knows, so a preview cannot leave out what the worker plans with.
func TestPlanInputIsWhole(t *testing.T) {
	ref := plan.VMRef{Region: "eu-west-1", ID: "i-1"}
	a := Account{
		Key:      "vms/a",
		Entities: map[plan.EntityRef]plan.VMRef{{Namespace: "vms", Name: "vm"}: ref},
		Shared:   map[plan.EntityRef]string{{Namespace: "other", Name: "vm"}: "vpc-1"},
		Services: map[plan.EntityRef]plan.VMRef{{Namespace: "vms", Name: "db"}: {Region: "eu-west-1", ID: "arn:db"}},
		Modes:    map[plan.VMRef]VMMode{ref: {Mode: plan.Released, Reason: "because"}},
		Failsafe: []plan.FailsafeFlow{{Direction: "ingress"}}, MaxPerWave: 1,
		Confirmed: map[string][]string{"eni-1": {"sg-1"}}, Dependents: plan.DependentsRule{Default: plan.CutDependents},
		Force: "0123abcd", ForcedBy: "kubectl at noon",
	}
	want := enforcer.Computed{
		Policies:      []*v1beta2.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{UID: "u"}, SourceRef: &v1beta2.NetworkPolicyReference{Name: "p"}}},
		AddressGroups: []*enforcer.AddressGroup{{}}, AppliedToGroups: []*v1beta2.AppliedToGroup{{}},
	}
	in := a.PlanInput("cluster", want, []plan.Region{{}})
	ofTheWorker := map[string]bool{"Realized": true, "Stop": true, "Seal": true, "Blocked": true, "Locked": true, "Unmarked": true, "Agents": true, "Faulty": true, "Heavy": true, "Forced": true}
	v := reflect.ValueOf(in)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && v.Field(i).IsZero() != ofTheWorker[f.Name] {
			t.Errorf("field %s: set is %v", f.Name, !v.Field(i).IsZero())
		}
	}
	if in.Modes[ref] != plan.Released {
		t.Errorf("modes %v", in.Modes)
	}
	a.Releasing = true
	if in = a.PlanInput("cluster", want, []plan.Region{{}}); in.Policies != nil || in.Entities != nil || in.Modes != nil {
		t.Errorf("of a releasing account: %+v", in)
	}
}
