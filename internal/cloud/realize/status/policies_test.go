package status

import (
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestPolicyStatusByMode: a policy that is not in force because of the modes of VMs is never
// reported as realized, and what was reported because of modes is taken back when they let it be
// enforced.
func TestPolicyStatusByMode(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	planned, released, broken := plan.VMRef{Region: home, ID: "i-3"}, plan.VMRef{Region: home, ID: "i-4"}, plan.VMRef{Region: home, ID: "i-5"}
	nic := plan.VMRef{Region: home, ID: "eni-6"} // an interface that is an entity of its own
	report := func(err error, p plan.PolicyStatus) Report {
		p.PolicyRef = onVM("a", 2, false, "").PolicyRef
		return Report{Account: labAccount, EnforcerKey: "cloud/vms/shop", Err: err, Result: &plan.Result{Policies: []plan.PolicyStatus{p}, Outcome: plan.Outcome{VMs: []plan.VMStatus{
			{VM: webVM}, {VM: otherVM}, {VM: planned, Mode: plan.Planned}, {VM: released, Mode: plan.Released}, {VM: broken, Mode: plan.BreakGlass},
			{VM: nic, Interfaces: []plan.InterfaceStatus{{ID: nic.ID}}}}}}}
	}
	on := func(vms ...plan.VMRef) []plan.VMRef { return vms }
	refused := []plan.FailedVM{{VM: otherVM, Message: "needs 73 rules"}}
	for _, c := range []struct {
		name   string
		report Report
		want   []string
	}{
		{"plan", report(nil, plan.PolicyStatus{Suspended: on(planned)}), []string{"cloud/vms/shop a 2 true planned on 1 VM, nothing is written"}},
		{"to be enforced", report(nil, plan.PolicyStatus{Pending: on(webVM)}), []string{"cloud/vms/shop a 0 false"}},
		{"still", report(nil, plan.PolicyStatus{Pending: on(webVM)}), nil},
		{"enforced", report(nil, plan.PolicyStatus{Realized: on(webVM)}), []string{"cloud/vms/shop a 2 false"}},
		{"in motion", report(nil, plan.PolicyStatus{Pending: on(webVM)}), nil},
		{"some", report(nil, plan.PolicyStatus{Realized: on(webVM), Suspended: on(planned, released, broken)}),
			[]string{"cloud/vms/shop a 2 true not enforced on 2 of 4 VMs: 1 in mode break-glass, 1 in mode released; planned on 1 VM, nothing is written"}},
		{"others are refused", report(nil, plan.PolicyStatus{Failed: refused, Suspended: on(broken)}),
			[]string{"cloud/vms/shop a 2 true not enforced on 1 of 2 VMs: 1 in mode break-glass; refused on 1 of 2 VMs: needs 73 rules"}},
		{"not all are VMs", report(nil, plan.PolicyStatus{Realized: on(webVM, nic), Failed: refused}), []string{"cloud/vms/shop a 2 true refused on 1 of 3 workloads: needs 73 rules"}},
		{"others wait", report(errors.New("AuthFailure"), plan.PolicyStatus{Pending: on(webVM), Suspended: on(broken)}),
			[]string{"cloud/vms/shop a 2 true not enforced on 1 of 2 VMs: 1 in mode break-glass; AuthFailure"}},
	} {
		d.write(c.report)
		if diff := gocmp.Diff(c.want, d.posted.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestFailsafeShows: what is always allowed stands on the account and on the VMs with policies, for
// as long as it is.
func TestFailsafeShows(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	flows := plan.ParseFailsafe([]cloudv1.FailsafeFlow{
		{Direction: "Ingress", Protocol: "TCP", Port: ptr.To[int32](22), CIDRs: []string{"192.0.2.0/24", "2001:db8::/64"}},
		{Direction: "Egress", Protocol: "ICMP", CIDRs: []string{"0.0.0.0/0"}},
		{Direction: "Egress", Protocol: "UDP", CIDRs: []string{"198.51.100.1/32"}},
		{Direction: "Egress", Protocol: "TCP", Port: ptr.To[int32](1), EndPort: ptr.To[int32](9), CIDRs: []string{"198.51.100.1/32"}},
		{Direction: "Egress", CIDRs: []string{"198.51.100.2/32"}},
		{Direction: "Egress", CIDRs: []string{"198.51.100.3/32"}},
	})
	const text = "ingress tcp 22 from 192.0.2.0/24, 2001:db8::/64; egress icmp and icmpv6 to 0.0.0.0/0; egress udp to 198.51.100.1/32; " +
		"egress tcp 1-9 to 198.51.100.1/32; egress all protocols to 198.51.100.2/32; and 1 more"
	for _, c := range []struct {
		flows                 []plan.FailsafeFlow
		onAccount, realizedBy string
	}{
		{nil, "", "1 of 1 policies are realized"},
		{flows, "allowed on every VM with policies, before any rule: " + text, "1 of 1 policies are realized; allowed before them by failsafe of the account: " + text},
		{nil, "", "1 of 1 policies are realized"},
	} {
		r := reportOf(nil, nil, onVM("a", 1, true, ""))
		r.Failsafe = c.flows
		d.write(r)
		var account cloudv1.CloudProviderAccount
		if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: labNamespace, Name: "shop"}, &account); err != nil {
			t.Fatal(err)
		}
		got := ""
		if cond := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionFailsafe); cond != nil {
			got = cond.Message
		}
		if got != c.onAccount {
			t.Errorf("account: %q, want %q", got, c.onAccount)
		}
		if cond := meta.FindStatusCondition(d.vm().Status.Conditions, cloudv1.ConditionRealized); cond == nil || cond.Message != c.realizedBy {
			t.Errorf("VM: %+v, want %q", cond, c.realizedBy)
		}
	}
}
