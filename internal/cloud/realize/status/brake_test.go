package status

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/realize/brake"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

func (d *desk) account() *cloudv1.CloudProviderAccount {
	d.Helper()
	var out cloudv1.CloudProviderAccount
	if err := d.client.Get(d.Context(), client.ObjectKey{Namespace: labNamespace, Name: "shop"}, &out); err != nil {
		d.Fatal(err)
	}
	return &out
}

// annotate puts a confirmation on the account.
func (d *desk) annotate(hash string) {
	d.Helper()
	account := d.account()
	account.Annotations = map[string]string{cloudv1.AnnotationConfirm: hash, "other": "stays"}
	if err := d.client.Update(d.Context(), account); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) force(hash string) {
	d.Helper()
	account := d.account()
	account.Annotations[cloudv1.AnnotationForce] = hash
	if err := d.client.Update(d.Context(), account); err != nil {
		d.Fatal(err)
	}
}

// TestBrakeStatus: what waits is told with the command that confirms it, and no status calls a
// policy realized meanwhile; a confirmation that is used up is taken away, another one is not.
// The same goes for the word that forces what is blocked; while something waits it takes both.
func TestBrakeStatus(t *testing.T) {
	var conflicts atomic.Int32
	d := newDesk(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		if conflicts.Add(1) == 1 {
			return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), nil)
		}
		return c.Patch(ctx, obj, p, opts...)
	}})
	waiting := &plan.Waiting{Account: labAccount, Hash: "0123456789abcdef", Brake: plan.Brake{Percent: 50, Interfaces: 1}, Control: 1, All: 1,
		Released: []plan.InterfaceRef{{VM: webVM, ID: "eni-1"}}}
	report := func(b brake.State, policies ...plan.VMPolicy) Report {
		r := reportOf(nil, nil, policies...)
		if b.Waiting != nil {
			r.Result.VMs[0].Mode = plan.Braked
			for i := range r.Result.Policies {
				r.Result.Policies[i] = plan.PolicyStatus{PolicyRef: r.Result.Policies[i].PolicyRef, Suspended: []plan.VMRef{webVM}}
			}
		}
		r.Brake = b
		return r
	}
	policy := onVM("a", 1, false, "")
	const command = "kubectl annotate cloudprovideraccount shop -n vms nephele.io/confirm=0123456789abcdef --overwrite"
	for _, c := range []struct {
		name, annotation string
		report           Report
		status           metav1.ConditionStatus // of the condition Braked; "" if there is none
		message          string
		realized         string // reason on the VM
		annotated        string // afterwards
		events           []string
	}{
		{"early", "", report(brake.State{Waiting: waiting, Early: true}, policy), "", "", cloudv1.ReasonConfirmationNeeded, "", nil},
		{"waits", "", report(brake.State{Waiting: waiting}, policy), metav1.ConditionTrue, command, cloudv1.ReasonConfirmationNeeded, "",
			[]string{"Warning ConfirmationNeeded " + render.WaitingFor(waiting)}},
		{"still", "", report(brake.State{Waiting: waiting}, policy), metav1.ConditionTrue, command, cloudv1.ReasonConfirmationNeeded, "", nil},
		{"wrongly confirmed", strings.Repeat("x", 1000), report(brake.State{Waiting: waiting, Given: strings.Repeat("x", 1000)}, policy), metav1.ConditionTrue,
			"is \"" + strings.Repeat("x", 40) + "...\", which does not confirm this", cloudv1.ReasonConfirmationNeeded, strings.Repeat("x", 1000), nil},
		{"no policy any more", "", report(brake.State{Waiting: waiting}), metav1.ConditionTrue, command, cloudv1.ReasonConfirmationNeeded, "", nil},
		{"confirmed", waiting.Hash, report(brake.State{Given: waiting.Hash, Confirmed: waiting.Hash, Left: 1}), metav1.ConditionFalse, "is confirmed", cloudv1.ReasonOK,
			waiting.Hash, []string{"Normal Confirmed 0123456789abcdef is confirmed and on its way",
				"Normal Released no policy applies any more; the VM is under its own security groups"}},
		{"another one since", "another", report(brake.State{Given: waiting.Hash, Spent: waiting.Hash}), "", "", cloudv1.ReasonOK, "another", nil},
		{"used up", waiting.Hash, report(brake.State{Given: waiting.Hash, Spent: waiting.Hash}), "", "", cloudv1.ReasonOK, "", nil},
		{"waits again", "", report(brake.State{Waiting: waiting}, policy), metav1.ConditionTrue, command, cloudv1.ReasonConfirmationNeeded, "",
			[]string{"Warning ConfirmationNeeded " + render.WaitingFor(waiting)}},
		{"called off", "", report(brake.State{}, onVM("a", 1, true, "")), "", "", cloudv1.ReasonOK, "",
			[]string{"Normal BrakeOver nothing waits for a confirmation any more", "Normal PolicyRealized a is enforced on this VM"}},
	} {
		d.annotate(c.annotation)
		d.write(c.report)
		account, vm := d.account(), d.vm()
		braked := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionBraked)
		if (braked == nil) != (c.status == "") || braked != nil && (braked.Status != c.status || !strings.Contains(braked.Message, c.message)) {
			t.Errorf("%s: %+v", c.name, braked)
		}
		if got := account.Annotations[cloudv1.AnnotationConfirm]; got != c.annotated || account.Annotations["other"] != "stays" {
			t.Errorf("%s: the annotations are %v", c.name, account.Annotations)
		}
		realized := meta.FindStatusCondition(vm.Status.Conditions, cloudv1.ConditionRealized)
		if realized == nil || realized.Reason != c.realized || (realized.Status == metav1.ConditionTrue) != (c.realized == cloudv1.ReasonOK) {
			t.Errorf("%s: %+v", c.name, realized)
		}
		for _, p := range vm.Status.Policies {
			if c.realized == cloudv1.ReasonConfirmationNeeded &&
				(p.Phase != cloudv1.PolicyPhaseSuspended || !strings.Contains(p.Message, "waits for a confirmation of the account vms/shop")) {
				t.Errorf("%s: %+v", c.name, p)
			}
		}
		if c.realized == cloudv1.ReasonConfirmationNeeded && len(c.report.Result.Policies) > 0 {
			if got := d.posted.take(); len(got) != 1 ||
				!strings.Contains(got[0], "true not enforced on 1 of 1 VMs: 1 waiting for a confirmation, see the condition Braked of the account") {
				t.Errorf("%s: reported %q", c.name, got)
			}
		} else {
			d.posted.take()
		}
		if diff := gocmp.Diff(c.events, d.events()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", c.name, diff)
		}
	}
	d.force("0badc0ffee0badc0")
	r := report(brake.State{Waiting: waiting}, policy)
	r.Force = "0badc0ffee0badc0"
	d.write(r)
	if c := meta.FindStatusCondition(d.account().Status.Conditions, cloudv1.ConditionBraked); !strings.Contains(c.Message, "nephele.io/force alone forces nothing of this: it takes both") {
		t.Errorf("%+v", c)
	}
	d.force("0badc0ffee0badc0 by alice")
	for _, spent := range []bool{false, true} {
		r := report(brake.State{}, onVM("a", 1, true, ""))
		r.Force, r.ForceSpent = "0badc0ffee0badc0", spent
		d.write(r)
		if _, there := d.account().Annotations[cloudv1.AnnotationForce]; there == spent {
			t.Errorf("used up %v: the annotations are %v", spent, d.account().Annotations)
		}
	}
}
