package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestStatusOfServices: a service and an interface say which policies apply to them and how far
// each is realized, as a VM does; also where their groups cannot be set. What somebody writes over
// it is put right, and what no longer applies goes.
func TestStatusOfServices(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	database := &cloudv1.CloudNativeService{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "same-name", UID: "database"}}
	nic := &cloudv1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "same-name", UID: "nic"}}
	fixed := &cloudv1.CloudNativeService{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "fixed", UID: "fixed"}}
	refs := map[client.Object]plan.EntityRef{}
	for _, o := range []client.Object{database, nic, fixed} {
		if err := d.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		on, _ := subjectOf(o)
		refs[o] = on.ref()
	}
	is := func(o client.Object, status metav1.ConditionStatus, summary, message string, phases ...cloudv1.PolicyPhase) {
		t.Helper()
		if err := d.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		on, _ := subjectOf(o)
		c := meta.FindStatusCondition(*on.conditions, cloudv1.ConditionRealized)
		var got []cloudv1.PolicyPhase
		for _, p := range *on.policies {
			got = append(got, p.Phase)
		}
		if c == nil || c.Status != status || c.Message != message || *on.summary != summary || len(got) != len(phases) || len(got) > 0 && got[0] != phases[0] {
			t.Errorf("%s %s: %+v, %s, %v", on.kind(), on.GetName(), c, *on.summary, got)
		}
	}
	report := reportOf(nil, nil)
	report.Services = map[plan.EntityRef]plan.VMRef{refs[database]: {Region: home, ID: "db"}, refs[nic]: {Region: home, ID: "eni"}, refs[fixed]: {Region: home, ID: "fixed"}}
	report.Result.VMs = append(report.Result.VMs,
		plan.VMStatus{VM: plan.VMRef{Region: home, ID: "db"}, Policies: []plan.VMPolicy{onVM("a", 1, true, "")}},
		plan.VMStatus{VM: plan.VMRef{Region: home, ID: "eni"}, Policies: []plan.VMPolicy{onVM("a", 1, false, "")}})
	refused := plan.PolicyStatus{PolicyRef: onVM("a", 1, false, "").PolicyRef}
	refused.Unguarded = []plan.UnguardedService{{Entity: refs[fixed], Why: &plan.Reason{Code: plan.InterfaceUnguarded}, Message: "it has no groups"}}
	report.Result.Policies = append(report.Result.Policies, refused)
	d.write(report)
	is(database, metav1.ConditionTrue, "1/1", "1 of 1 policies are realized", cloudv1.PolicyPhaseRealized)
	is(nic, metav1.ConditionFalse, "0/1", "0 of 1 policies are realized", cloudv1.PolicyPhaseRealizing)
	is(fixed, metav1.ConditionFalse, "0/1", "0 of 1 policies are realized; failed: a", cloudv1.PolicyPhaseFailed)
	if got := fixed.Status.Policies[0].Message; got != "it has no groups" {
		t.Errorf("the reason is %q", got)
	}

	database.Status.PolicySummary = "7/7"
	if err := d.client.Status().Update(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	d.writer.Changed(database)
	if !eventually(func() bool {
		if d.clock.HasWaiters() {
			d.clock.Step(correctPause)
		}
		return d.client.Get(t.Context(), client.ObjectKeyFromObject(database), database) == nil && database.Status.PolicySummary == "1/1"
	}) {
		t.Errorf("not put right: %+v", database.Status)
	}

	blind := reportOf(nil, nil)
	blind.Services, blind.Unread = report.Services, map[string]Unread{home: {Never: true}}
	blind.Result.Policies = append(blind.Result.Policies, plan.PolicyStatus{PolicyRef: refused.PolicyRef, Unguarded: []plan.UnguardedService{
		{Entity: refs[database], Why: &plan.Reason{Code: plan.InterfaceUnguarded}, Message: "its region was not read"}}})
	d.events()
	d.write(blind)
	is(database, metav1.ConditionTrue, "1/1", "1 of 1 policies are realized", cloudv1.PolicyPhaseRealized)
	is(fixed, metav1.ConditionFalse, "0/1", "0 of 1 policies are realized; failed: a", cloudv1.PolicyPhaseFailed)
	if got := d.events(); len(got) > 0 {
		t.Errorf("events about services of a region that was not read: %q", got)
	}

	// A mode that lets nothing be enforced is told before the groups that cannot be set.
	suspended := reportOf(nil, nil)
	suspended.Services = map[plan.EntityRef]plan.VMRef{refs[fixed]: {Region: home, ID: "fixed"}}
	suspended.ModeReasons = map[plan.VMRef]string{{Region: home, ID: "fixed"}: "the test"}
	suspended.Result.VMs = append(suspended.Result.VMs, plan.VMStatus{VM: plan.VMRef{Region: home, ID: "fixed"}, Mode: plan.Released, Policies: []plan.VMPolicy{onVM("a", 1, false, "")}})
	d.write(suspended)
	is(fixed, metav1.ConditionFalse, "0/1", "mode released (the test): policies that are not enforced: 1", cloudv1.PolicyPhaseSuspended)

	// Of what is only planned for, it is told that it would be refused.
	planned := reportOf(nil, nil)
	planned.Services = suspended.Services
	planned.ModeReasons = map[plan.VMRef]string{{Region: home, ID: "fixed"}: "the test"}
	planned.Result.VMs = append(planned.Result.VMs, plan.VMStatus{VM: plan.VMRef{Region: home, ID: "fixed"}, Mode: plan.Planned, Policies: []plan.VMPolicy{onVM("a", 1, false, "")}})
	planned.Result.Policies = []plan.PolicyStatus{{PolicyRef: refused.PolicyRef, Suspended: []plan.VMRef{{Region: home, ID: "fixed"}}}}
	would := refused
	would.Unguarded = []plan.UnguardedService{{Entity: refs[fixed], VM: plan.VMRef{Region: home, ID: "fixed"}, Why: &plan.Reason{Code: plan.InterfaceUnguarded}, Message: "it has no groups"}}
	planned.Would = []*plan.Result{{Policies: []plan.PolicyStatus{would}}}
	d.write(planned)
	is(fixed, metav1.ConditionFalse, "0/1", "mode plan (the test): nothing is written; policies that would apply: 1", cloudv1.PolicyPhaseSuspended)
	if c := meta.FindStatusCondition(fixed.Status.Conditions, cloudv1.ConditionPlanned); c == nil || c.Reason != cloudv1.ReasonWouldBeRefused || !strings.Contains(c.Message, "it has no groups") {
		t.Errorf("what would become of it: %+v", c)
	}
	modes := map[plan.VMRef]plan.Mode{{Region: home, ID: "fixed"}: plan.Planned}
	node, known := nodeStatus(planned, planned.Result.Policies[0], modes, nil, wouldBe(planned, modes)[would.UID])
	if want := "planned on 1 VM: 0 would be enforced, 1 refused: it has no groups"; !known || node.Message != want || node.Workloads != 1 || node.WorkloadsPlanned != 1 {
		t.Errorf("the policy says %q, %+v", node.Message, node)
	}

	report = reportOf(nil, nil)
	report.Services = map[plan.EntityRef]plan.VMRef{refs[database]: {Region: home, ID: "db"}, refs[fixed]: {Region: home, ID: "fixed"}}
	d.write(report)
	is(database, metav1.ConditionTrue, "", "no policy applies")
	is(fixed, metav1.ConditionTrue, "", "no policy applies")
	is(nic, metav1.ConditionFalse, "0/1", "0 of 1 policies are realized", cloudv1.PolicyPhaseRealizing)
}
