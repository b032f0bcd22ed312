package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// Outcome is what policies lead to on one VM, service or interface: the part of its status that
// this package owns.
type Outcome struct {
	// Policies are sorted by kind, namespace and name, and Summary is their sum.
	Policies []cloudv1.AppliedPolicy
	Summary  string
	// Conditions are of the kinds in outcomeKinds.
	Conditions []metav1.Condition
}

// outcomeKinds are the kinds of conditions of an Outcome. One that it lacks is false.
var outcomeKinds = []string{cloudv1.ConditionRealized, cloudv1.ConditionBreakGlass, cloudv1.ConditionPlanned, cloudv1.ConditionRecordsSigned,
	cloudv1.ConditionAgented, cloudv1.ConditionObstructed, cloudv1.ConditionFormerGroupsDeleted}

// Outcome is the part of the report about one VM, or about the object that the word names. outlooks
// are the outlooks of Would, and before is what the object shows; the conditions of the result have
// no times.
func (r Report) Outcome(vm plan.VMStatus, word string, outlooks map[plan.VMRef]render.Outlook, before Outcome) Outcome {
	out := Outcome{Policies: r.applied(vm, before.Policies)}
	var cond metav1.Condition
	cond, out.Summary = realizedCondition(out.Policies)
	if vm.Mode != plan.Enforce {
		cond = suspendedCondition(len(out.Policies), vm, r, word)
	} else if flows := failsafeText(r.Failsafe); flows != "" && len(out.Policies) > 0 {
		cond.Message += "; allowed before them by failsafe of the account: " + flows
	}
	if vm.Mode != plan.Enforce || len(out.Policies)+len(before.Policies) > 0 || meta.FindStatusCondition(before.Conditions, cond.Type) != nil {
		out.Conditions = append(out.Conditions, cond)
	} // else there is nothing to say, of which there may be thousands
	for _, c := range []*metav1.Condition{breakGlassCondition(r, vm), outlookCondition(vm, outlooks), vmRecordsCondition(vm), agentedCondition(r, vm.VM),
		obstructedCondition(vm), formerDeletedCondition(vm, r.Seen[vm.VM.Region])} {
		if c != nil {
			out.Conditions = append(out.Conditions, *c)
		}
	}
	return out
}

// bring makes the conditions of an object what they are to be, and reports whether that changes
// any.
func (o Outcome) bring(conditions *[]metav1.Condition) (changed bool) {
	for _, kind := range outcomeKinds {
		changed = setOrRemove(conditions, kind, meta.FindStatusCondition(o.Conditions, kind)) || changed
	}
	return changed
}

// applied is the part of a VirtualMachine's status that says which policies apply, sorted by kind,
// namespace and name. For a VM that was never read, the report of a former process stays, because
// nothing better is known.
func (r Report) applied(vm plan.VMStatus, before []cloudv1.AppliedPolicy) []cloudv1.AppliedPolicy {
	var out []cloudv1.AppliedPolicy
	for _, p := range vm.Policies {
		st := cloudv1.AppliedPolicy{
			Name: p.Name, Namespace: p.Namespace, Kind: string(p.Kind), UID: types.UID(p.UID), Generation: p.Generation,
			Phase: cloudv1.PolicyPhaseRealizing, Message: p.Warning,
		}
		switch {
		case vm.Mode == plan.Braked:
			st.Phase, st.Message = cloudv1.PolicyPhaseSuspended, brakedText(r.Account)
		case vm.Mode != plan.Enforce:
			st.Phase = cloudv1.PolicyPhaseSuspended
		case r.Unread[vm.VM.Region].Never && wasRealized(before, p):
			st.Phase = cloudv1.PolicyPhaseRealized
		case p.Message != "":
			st.Phase, st.Message = cloudv1.PolicyPhaseFailed, p.Message
		case p.Realized:
			st.Phase = cloudv1.PolicyPhaseRealized
		case r.Err != nil && r.concerns(vm):
			st.Phase, st.Message = cloudv1.PolicyPhaseFailed, cloud.FailureText(r.Err)
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b cloudv1.AppliedPolicy) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// wasRealized reports whether a status says that this version of the policy is realized.
func wasRealized(status []cloudv1.AppliedPolicy, p plan.VMPolicy) bool {
	return slices.ContainsFunc(status, func(st cloudv1.AppliedPolicy) bool {
		return string(st.UID) == p.UID && st.Generation == p.Generation && st.Phase == cloudv1.PolicyPhaseRealized
	})
}

// realizedCondition sums the policies of a VM up.
func realizedCondition(policies []cloudv1.AppliedPolicy) (cond metav1.Condition, summary string) {
	cond = metav1.Condition{Type: cloudv1.ConditionRealized, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK, Message: "no policy applies"}
	if len(policies) == 0 {
		return cond, ""
	}
	realized, failed := 0, []string(nil)
	for _, p := range policies {
		switch p.Phase {
		case cloudv1.PolicyPhaseRealized:
			realized++
		case cloudv1.PolicyPhaseFailed:
			failed = append(failed, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"))
		}
	}
	cond.Message = fmt.Sprintf("%d of %d policies are realized", realized, len(policies))
	switch {
	case len(failed) > 0:
		cond.Status, cond.Reason = metav1.ConditionFalse, cloudv1.ReasonPolicyFailed
		cond.Message += "; failed: " + strings.Join(failed, ", ")
	case realized < len(policies):
		cond.Status, cond.Reason = metav1.ConditionFalse, cloudv1.ReasonPending
	}
	return cond, fmt.Sprintf("%d/%d", realized, len(policies))
}

// obstructedCondition says what the filter of a subnet denies of what policies allow; nil if
// nothing.
func obstructedCondition(vm plan.VMStatus) *metav1.Condition {
	if len(vm.Obstructed) == 0 {
		return nil
	}
	return &metav1.Condition{
		Type: cloudv1.ConditionObstructed, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonSubnetDenies, Message: render.Obstructions(vm.Obstructed),
	}
}
