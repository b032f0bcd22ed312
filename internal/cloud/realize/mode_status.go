package realize

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// suspendedCondition is the condition Realized of a VM whose mode does not let policies be enforced.
func suspendedCondition(policies int, vm plan.VMStatus, r Report) metav1.Condition {
	held, by, remarks := false, r.Modes[vm.VM].Reason, ""
	for _, n := range vm.Interfaces {
		held = held || n.State == plan.Guarded
		for _, remark := range r.Result.Notes {
			if remark.Object == n.ID && remark.Region == vm.VM.Region && remarks == "" {
				remarks = "; note: " + remark.Message
			}
		}
	}
	cond := metav1.Condition{Type: cloudv1.ConditionRealized, Status: metav1.ConditionFalse}
	switch vm.Mode {
	case plan.Planned:
		cond.Reason = cloudv1.ReasonPlanOnly
		cond.Message = fmt.Sprintf("mode plan (%s): nothing is written; policies that would apply: %d", by, policies)
	case plan.BreakGlass:
		cond.Reason = cloudv1.ReasonBreakGlass
		cond.Message = fmt.Sprintf("BREAK-GLASS (%s): policies that are not enforced: %d", by, policies)
	default:
		cond.Reason = cloudv1.ReasonReleased
		cond.Message = fmt.Sprintf("mode %s (%s): policies that are not enforced: %d", vm.Mode, by, policies)
	}
	if held && vm.Mode != plan.Planned {
		cond.Message += "; the VM is being given back"
	}
	cond.Message += remarks
	return cond
}

// setModeConditions sets the conditions Planned and BreakGlass and reports whether that changes any.
func (s *StatusWriter) setModeConditions(conditions *[]metav1.Condition, r Report, vm plan.VMStatus, outlooks map[plan.VMRef]plan.Outlook) (changed bool) {
	by := r.Modes[vm.VM].Reason
	if vm.Mode == plan.BreakGlass {
		changed = meta.SetStatusCondition(conditions, metav1.Condition{Type: cloudv1.ConditionBreakGlass, Status: metav1.ConditionTrue,
			Reason: cloudv1.ReasonBreakGlass, Message: by})
	} else {
		changed = meta.RemoveStatusCondition(conditions, cloudv1.ConditionBreakGlass)
	}
	o, known := outlooks[vm.VM]
	if vm.Mode != plan.Planned || !known {
		return meta.RemoveStatusCondition(conditions, cloudv1.ConditionPlanned) || changed
	}
	return meta.SetStatusCondition(conditions, plannedCondition(o, "if enforced, ")) || changed
}

func plannedCondition(o plan.Outlook, prefix string) metav1.Condition {
	cond := metav1.Condition{Type: cloudv1.ConditionPlanned, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK, Message: prefix + o.String()}
	if len(o.Refused) > 0 {
		cond.Status, cond.Reason = metav1.ConditionFalse, cloudv1.ReasonPolicyFailed
	}
	return cond
}

// tellMode writes the events about break-glass: one when it begins, one when it is over.
func (s *StatusWriter) tellMode(vm *cloudv1.VirtualMachine, before []metav1.Condition, policies int) {
	was := meta.FindStatusCondition(before, cloudv1.ConditionBreakGlass)
	is := meta.FindStatusCondition(vm.Status.Conditions, cloudv1.ConditionBreakGlass)
	switch {
	case is != nil && (was == nil || was.Message != is.Message):
		s.Events.Eventf(vm, nil, corev1.EventTypeWarning, "BreakGlass", "Realize", "%s",
			note(fmt.Sprintf("released at once (%s); policies that are not enforced: %d", is.Message, policies)))
	case is == nil && was != nil:
		s.Events.Eventf(vm, nil, corev1.EventTypeNormal, "BreakGlassOver", "Realize", "policies are enforced again as the mode says")
	}
}

// writeSelectors brings the outlook of planned VMs to the selectors of the account that import them. bySelector has those of the VMs
// that the selectors import.
func (s *StatusWriter) writeSelectors(ctx context.Context, r Report, bySelector map[client.ObjectKey][]plan.Outlook) error {
	namespace, name, _ := strings.Cut(r.Account, "/")
	var list cloudv1.CloudEntitySelectorList
	if err := s.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("selectors of account %s: %w", r.Account, err)
	}
	var errs []error
	for i := range list.Items {
		sel := &list.Items[i]
		key := client.ObjectKeyFromObject(sel)
		outlooks := bySelector[key]
		if sel.Spec.AccountName != name || sel.Spec.AccountNamespace != namespace ||
			len(outlooks) == 0 && meta.FindStatusCondition(sel.Status.Conditions, cloudv1.ConditionPlanned) == nil {
			continue
		}
		var sum plan.Outlook
		for _, o := range outlooks {
			sum.Add(o)
		}
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			var live cloudv1.CloudEntitySelector
			if err := s.get(ctx, key, &live); err != nil {
				return err
			}
			before := live.DeepCopy()
			if len(outlooks) == 0 {
				meta.RemoveStatusCondition(&live.Status.Conditions, cloudv1.ConditionPlanned)
			} else {
				meta.SetStatusCondition(&live.Status.Conditions, plannedCondition(sum, fmt.Sprintf("VMs that are planned for: %d; if enforced, ", len(outlooks))))
			}
			if equality.Semantic.DeepEqual(before.Status, live.Status) {
				return nil
			}
			return s.update(ctx, &live)
		})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("status of CloudEntitySelector %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}
