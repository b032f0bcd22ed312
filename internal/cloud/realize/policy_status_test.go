package realize

import (
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestPolicyStatusByMode: a policy that is not in force because of the modes of VMs is never reported as realized, and what was reported
// because of modes is taken back when they let it be enforced.
func TestPolicyStatusByMode(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	planned, released, broken := plan.VMRef{Region: home, ID: "i-3"}, plan.VMRef{Region: home, ID: "i-4"}, plan.VMRef{Region: home, ID: "i-5"}
	report := func(err error, p plan.PolicyStatus) Report {
		p.PolicyRef = onVM("a", 2, false, "").PolicyRef
		return Report{Account: labAccount, EnforcerKey: "cloud/vms/shop", Err: err, Result: &plan.Result{Policies: []plan.PolicyStatus{p}, VMs: []plan.VMStatus{
			{VM: webVM}, {VM: otherVM}, {VM: planned, Mode: plan.Planned}, {VM: released, Mode: plan.Released}, {VM: broken, Mode: plan.BreakGlass}}}}
	}
	on := func(vms ...plan.VMRef) []plan.VMRef { return vms }
	refused := []plan.FailedVM{{VM: otherVM, Message: "needs 73 rules"}}
	for _, c := range []struct {
		name   string
		report Report
		want   []string
	}{
		{"plan", report(nil, plan.PolicyStatus{Suspended: on(planned)}), []string{"cloud/vms/shop a 2 true not enforced on 1 of 1 VMs: 1 in mode plan"}},
		{"to be enforced", report(nil, plan.PolicyStatus{Pending: on(webVM)}), []string{"cloud/vms/shop a 0 false"}},
		{"still", report(nil, plan.PolicyStatus{Pending: on(webVM)}), nil},
		{"enforced", report(nil, plan.PolicyStatus{Realized: on(webVM)}), []string{"cloud/vms/shop a 2 false"}},
		{"in motion", report(nil, plan.PolicyStatus{Pending: on(webVM)}), nil},
		{"some", report(nil, plan.PolicyStatus{Realized: on(webVM), Suspended: on(planned, released, broken)}),
			[]string{"cloud/vms/shop a 2 true not enforced on 3 of 4 VMs: 1 in mode break-glass, 1 in mode plan, 1 in mode released"}},
		{"others are refused", report(nil, plan.PolicyStatus{Failed: refused, Suspended: on(broken)}),
			[]string{"cloud/vms/shop a 2 true not enforced on 1 of 2 VMs: 1 in mode break-glass; 1 of 2 VMs: needs 73 rules"}},
		{"others wait", report(errors.New("AuthFailure"), plan.PolicyStatus{Pending: on(webVM), Suspended: on(broken)}),
			[]string{"cloud/vms/shop a 2 true not enforced on 1 of 2 VMs: 1 in mode break-glass; AuthFailure"}},
	} {
		d.write(c.report)
		if diff := gocmp.Diff(c.want, d.posted.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
