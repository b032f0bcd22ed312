package status

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestGuardedVMs: the account and the selector that imports a VM say that it holds groups of ours,
// for deletion protection. A region that was not read yet takes nothing off the number, and neither
// what another controller holds nor what is given back counts.
func TestGuardedVMs(t *testing.T) {
	d := newDesk(t, interceptor.Funcs{})
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "all"}, Spec: cloudv1.CloudEntitySelectorSpec{
		AccountNamespace: labNamespace, AccountName: "shop"}}
	vm := d.vm()
	vm.Labels = map[string]string{cloudv1.LabelCESName: "all"}
	for _, err := range []error{d.client.Create(t.Context(), selector), d.client.Update(t.Context(), &vm)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	report := func(interfaces ...plan.InterfaceStatus) Report {
		r := reportOf(nil, nil)
		r.Result.VMs[0].Interfaces = interfaces
		return r
	}
	never := report()
	never.Unread = map[string]Unread{away: {Never: true}}
	held := plan.InterfaceStatus{ID: "eni-1", Held: true}
	for _, step := range []struct {
		name   string
		report Report
		want   int32
	}{
		{"nothing is held yet", report(plan.InterfaceStatus{ID: "eni-1", State: plan.Guarded}), 0},
		{"held", report(held, plan.InterfaceStatus{ID: "eni-2", Held: true}), 1},
		{"not read since a restart", never, 1},
		{"held by another controller", report(plan.InterfaceStatus{ID: "eni-1", Held: true, Elsewhere: "theirs"}), 0},
		{"held again", report(held), 1},
		{"given back", report(plan.InterfaceStatus{ID: "eni-1"}), 0},
	} {
		d.write(step.report)
		var got cloudv1.CloudEntitySelector
		if err := d.client.Get(t.Context(), client.ObjectKeyFromObject(selector), &got); err != nil {
			t.Fatal(err)
		}
		for kind, n := range map[string]*int32{"account": d.account().Status.GuardedVMs, "selector": got.Status.GuardedVMs} {
			if n == nil || *n != step.want {
				t.Errorf("%s: the %s says %s, want %d", step.name, kind, text(n), step.want)
			}
		}
	}
}

func text(n *int32) string {
	if n == nil {
		return "nothing"
	}
	return fmt.Sprint(*n)
}
