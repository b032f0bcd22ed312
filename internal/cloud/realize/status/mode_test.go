package status

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestModeStatus: what VirtualMachine and CloudEntitySelector say of the modes.
func TestModeStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	sel := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "all"}}
	sel.Spec.AccountNamespace, sel.Spec.AccountName = labNamespace, "shop"
	if err := d.client.Create(t.Context(), sel); err != nil {
		t.Fatal(err)
	}
	vm := d.vm()
	vm.Labels = map[string]string{cloudv1.LabelCESName: "all"}
	if err := d.client.Update(t.Context(), &vm); err != nil {
		t.Fatal(err)
	}
	report := func(m plan.Mode, by string) Report {
		r := reportOf(nil, nil, onVM("a", 1, false, ""))
		r.Result.VMs[0].Mode = m
		r.ModeReasons = map[plan.VMRef]string{webVM: by}
		if m == plan.Planned {
			r.Would = []*plan.Result{{Outcome: plan.Outcome{VMs: []plan.VMStatus{
				{VM: webVM, Policies: []plan.VMPolicy{onVM("a", 1, false, ""), onVM("b", 1, false, "needs 73 rules")}},
			}}}}
		}
		return r
	}
	const over = "Normal BreakGlassOver policies are enforced again as far as the mode says so"
	const loud = "Warning BreakGlass VMs on which policies are not enforced: 1, of which released already: 1 (VirtualMachine vms/web-1: fire)" // on account and selector
	for _, c := range []struct {
		name    string
		report  Report
		reason  string
		planned string
		broken  bool
		events  []string
	}{
		{"plan", report(plan.Planned, "CloudEntitySelector vms/all"), cloudv1.ReasonPlanOnly,
			"neither an interface nor a rule would change; policies to enforce: 1; refused: 1, b: needs 73 rules", false, nil},
		{"break-glass", report(plan.BreakGlass, "VirtualMachine vms/web-1: fire"), cloudv1.ReasonBreakGlass, "", true,
			[]string{"Warning BreakGlass released (VirtualMachine vms/web-1: fire); policies that are not enforced: 1", loud, loud}},
		{"still", report(plan.BreakGlass, "VirtualMachine vms/web-1: fire"), cloudv1.ReasonBreakGlass, "", true, nil},
		{"released", report(plan.Released, "CloudEntitySelector vms/all"), cloudv1.ReasonReleased, "", false,
			[]string{over, over, over}},
		{"enforced", reportOf(nil, nil, onVM("a", 1, true, "")), cloudv1.ReasonOK, "", false, []string{"Normal PolicyRealized a is enforced on this VM"}},
	} {
		d.write(c.report)
		got := d.vm().Status
		cond := meta.FindStatusCondition(got.Conditions, cloudv1.ConditionRealized)
		if cond == nil || cond.Reason != c.reason || meta.IsStatusConditionTrue(got.Conditions, cloudv1.ConditionBreakGlass) != c.broken {
			t.Errorf("%s: %+v", c.name, got.Conditions)
		}
		if phase := got.Policies[0].Phase; (phase == cloudv1.PolicyPhaseSuspended) != (c.reason != cloudv1.ReasonOK) {
			t.Errorf("%s: phase %s", c.name, phase)
		}
		var live cloudv1.CloudEntitySelector
		if err := d.client.Get(t.Context(), client.ObjectKeyFromObject(sel), &live); err != nil {
			t.Fatal(err)
		}
		for on, p := range map[string]*metav1.Condition{
			"if enforced, " + c.planned:                              meta.FindStatusCondition(got.Conditions, cloudv1.ConditionPlanned),
			"VMs that are planned for: 1; if enforced, " + c.planned: meta.FindStatusCondition(live.Status.Conditions, cloudv1.ConditionPlanned),
		} {
			if (p != nil) != (c.planned != "") || p != nil && (p.Message != on || p.Status != metav1.ConditionFalse) {
				t.Errorf("%s: condition %+v, want %q", c.name, p, on)
			}
		}
		var account cloudv1.CloudProviderAccount
		if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: labNamespace, Name: "shop"}, &account); err != nil {
			t.Fatal(err)
		}
		for on, conditions := range map[string][]metav1.Condition{"selector": live.Status.Conditions, "account": account.Status.Conditions} {
			if meta.IsStatusConditionTrue(conditions, cloudv1.ConditionBreakGlass) != c.broken {
				t.Errorf("%s: %s: %+v", c.name, on, conditions)
			}
		}
		if diff := gocmp.Diff(c.events, d.events()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", c.name, diff)
		}
	}
}
