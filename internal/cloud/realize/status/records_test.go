package status

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestRecordsStatus: what account and VM say of records.
func TestRecordsStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	ref := plan.VMRef{Region: home, ID: "i-1"}
	for _, c := range []struct {
		name            string
		records         plan.Records
		not             bool
		problem         string
		reason, message string
		vm              string
	}{
		{name: "nothing is held"},
		{name: "all is well", records: plan.Records{Signed: 3}, reason: "OK", message: "all records of former groups are signed"},
		{name: "older ones", records: plan.Records{Signed: 3, Unsigned: 2}, reason: "Unsigned", message: "2 records of former groups not signed, and believed"},
		{name: "no right", not: true, reason: "NotPermitted", message: "neither signed nor checked"},
		{name: "forged", records: plan.Records{Unproven: []plan.Unproven{{Region: home, Interface: "eni-1", VM: ref, Message: "is gone"}}}, problem: `"x" is not`,
			reason: "NotBelieved", message: `eu-west-1 eni-1: is gone; the annotation cannot be read: "x" is not`, vm: "eni-1: is gone"},
		{name: "many", records: plan.Records{Unproven: slices.Repeat([]plan.Unproven{{Region: home, Interface: "eni-2", Message: "is gone"}}, 9)},
			reason: "NotBelieved", message: "and 4 more"},
		{name: "well again", records: plan.Records{Signed: 4}, reason: "OK", message: "all records of former groups are signed"},
		{name: "all given back"},
	} {
		r := reportOf(nil, nil)
		r.Result.Records, r.NotSigned, r.ConfirmedProblem = c.records, c.not, c.problem
		if c.vm != "" {
			r.Result.VMs[0].Interfaces = []plan.InterfaceStatus{{ID: "eni-1", State: plan.Guarded, Unproven: "is gone"}}
		}
		d.write(r)
		var account cloudv1.CloudProviderAccount
		if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: labNamespace, Name: "shop"}, &account); err != nil {
			t.Fatal(err)
		}
		cond := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionRecordsSigned)
		switch {
		case c.reason == "" && cond == nil:
		case cond == nil || cond.Reason != c.reason || !strings.Contains(cond.Message, c.message) || (cond.Status == metav1.ConditionTrue) != (c.reason == "OK"):
			t.Errorf("%s: %+v", c.name, cond)
		}
		vm := d.vm()
		on := meta.FindStatusCondition(vm.Status.Conditions, cloudv1.ConditionRecordsSigned)
		if (on != nil) != (c.vm != "") || on != nil && on.Message != c.vm {
			t.Errorf("%s: VM %+v", c.name, on)
		}
	}
}
