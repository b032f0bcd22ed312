package status

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestUnreadStatus: a VM that was never read keeps what its status says of the versions that apply,
// and the broken glass says what is known.
func TestUnreadStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	d.write(reportOf(nil, nil, onVM("a", 1, true, "")))
	d.events()
	away := errors.New("AuthFailure")
	r := reportOf(away, nil, onVM("a", 1, false, "cannot be read"), onVM("b", 1, false, "cannot be read"))
	r.Unread = map[string]Unread{home: {Err: away, Never: true}}
	d.write(r)
	vm := d.vm()
	if p := vm.Status.Policies; len(p) != 2 || p[0].Phase != cloudv1.PolicyPhaseRealized || p[1].Phase != cloudv1.PolicyPhaseFailed || vm.Status.PolicySummary != "1/2" {
		t.Errorf("status %+v", vm.Status)
	}
	broken := func(u Unread, err error, n plan.InterfaceStatus) Report {
		r := reportOf(err, nil, onVM("a", 1, false, ""))
		r.Result.VMs[0].Mode, r.Result.VMs[0].Interfaces = plan.BreakGlass, []plan.InterfaceStatus{n}
		r.ModeReasons = map[plan.VMRef]string{webVM: "fire"}
		r.Unread = map[string]Unread{home: u}
		return r
	}
	refused := &cloud.Error{Class: cloud.Auth, Call: "ModifyNetworkInterfaceAttribute", Code: "UnauthorizedOperation", Err: errors.New("no")}
	for _, c := range []struct {
		report Report
		want   string
	}{
		{broken(Unread{away, false}, away, plan.InterfaceStatus{Held: true}), "to be given back, but the region eu-west-1 cannot be read: AuthFailure"},
		{broken(Unread{}, nil, plan.InterfaceStatus{Held: true}), "being given back"},
		{broken(Unread{}, refused, plan.InterfaceStatus{Held: true}), "being given back, but the last attempt failed: " + cloud.FailureText(refused)},
		{broken(Unread{}, nil, plan.InterfaceStatus{Elsewhere: "held for the account vms/other"}), "not ours to release: held for the account vms/other"},
		{broken(Unread{}, nil, plan.InterfaceStatus{}), "released"},
	} {
		d.write(c.report)
		got := meta.FindStatusCondition(d.vm().Status.Conditions, cloudv1.ConditionBreakGlass)
		if got == nil || got.Message != c.want+" (fire)" {
			t.Errorf("condition %+v, want %q", got, c.want)
		}
		if e := d.events(); !slices.Contains(e, "Warning BreakGlass "+c.want+" (fire); policies that are not enforced: 1") {
			t.Errorf("events %q, want %q", e, c.want)
		}
		realized := meta.FindStatusCondition(d.vm().Status.Conditions, cloudv1.ConditionRealized)
		if realized == nil || realized.Reason != cloudv1.ReasonBreakGlass || c.want != released != strings.Contains(realized.Message, "; the VM is "+c.want) {
			t.Errorf("%s: %+v", c.want, realized)
		}
	}
}
