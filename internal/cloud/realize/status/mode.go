package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// suspendedCondition is the condition Realized of a VM, or whatever the word says it is, whose mode
// does not let policies be enforced.
func suspendedCondition(policies int, vm plan.VMStatus, r Report, word string) metav1.Condition {
	by, remarks := r.ModeReasons[vm.VM], ""
	for _, n := range vm.Interfaces {
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
	case plan.Braked:
		cond.Reason = cloudv1.ReasonConfirmationNeeded
		cond.Message = fmt.Sprintf("%s; until then the %s stays as it is; policies that apply: %d", brakedText(r.Account), word, policies)
	case plan.BreakGlass:
		cond.Reason = cloudv1.ReasonBreakGlass
		cond.Message = fmt.Sprintf("BREAK-GLASS (%s): policies that are not enforced: %d", by, policies)
	default:
		cond.Reason = cloudv1.ReasonReleased
		cond.Message = fmt.Sprintf("mode %s (%s): policies that are not enforced: %d", vm.Mode, by, policies)
	}
	if how := givenBack(r, vm); !vm.Mode.Still() && how != released {
		cond.Message += "; the " + word + " is " + how
	}
	cond.Message += remarks
	return cond
}

// released is what givenBack says when nothing is left to give back.
const released = "released"

// givenBack says how far a VM is given back whose mode demands it.
func givenBack(r Report, vm plan.VMStatus) string {
	region := vm.VM.Region
	unread := r.Unread[region]
	for _, n := range vm.Interfaces {
		switch {
		case n.Elsewhere != "":
			return "not ours to release: " + n.Elsewhere
		case !n.Held:
		case r.Blocked[plan.InterfaceKey{Region: region, ID: n.ID}] != "":
			return "being given back, but the cloud refuses to change the interface " + n.ID + ": " + r.Blocked[plan.InterfaceKey{Region: region, ID: n.ID}]
		case unread.Err != nil:
			return "to be given back, but " + unread.Text(region)
		case r.Err != nil:
			return "being given back, but the last attempt failed: " + cloud.FailureText(r.Err)
		default:
			return "being given back"
		}
	}
	switch {
	case unread.Never && unread.Err != nil:
		return "to be given back if we hold it, but " + unread.Text(region)
	case unread.Never:
		return "to be given back if we hold it, when the region " + region + " is read"
	}
	return released
}

// breakGlassCondition is the condition BreakGlass of a VM; nil if its glass is whole.
func breakGlassCondition(r Report, vm plan.VMStatus) *metav1.Condition {
	if vm.Mode != plan.BreakGlass {
		return nil
	}
	return &metav1.Condition{Type: cloudv1.ConditionBreakGlass, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonBreakGlass,
		Message: fmt.Sprintf("%s (%s)", givenBack(r, vm), r.ModeReasons[vm.VM])}
}

// outlookCondition is the condition Planned of a VM; nil unless its mode is plan and somebody has
// computed what enforcing would do.
func outlookCondition(vm plan.VMStatus, outlooks map[plan.VMRef]render.Outlook) *metav1.Condition {
	o, known := outlooks[vm.VM]
	if vm.Mode != plan.Planned || !known {
		return nil
	}
	c := plannedCondition(o, "if enforced, "+o.String())
	return &c
}

// plannedCondition says what enforcing would do. What would be refused is no failure: nothing is to
// be enforced yet.
func plannedCondition(o render.Outlook, text string) metav1.Condition {
	cond := metav1.Condition{Type: cloudv1.ConditionPlanned, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK, Message: text}
	if len(o.Refused) > 0 {
		cond.Status, cond.Reason = metav1.ConditionFalse, cloudv1.ReasonWouldBeRefused
	}
	return cond
}

// tellMode writes the events about break-glass: one for each step of it, one when it is over.
func (s *Writer) tellMode(on subject, before []metav1.Condition, policies int) {
	was := meta.FindStatusCondition(before, cloudv1.ConditionBreakGlass)
	is := meta.FindStatusCondition(*on.conditions, cloudv1.ConditionBreakGlass)
	switch {
	case is != nil && (was == nil || was.Message != is.Message):
		s.Events.Eventf(on.Object, nil, corev1.EventTypeWarning, "BreakGlass", "Realize", "%s",
			note(fmt.Sprintf("%s; policies that are not enforced: %d", is.Message, policies)))
	case is == nil && was != nil:
		s.Events.Eventf(on.Object, nil, corev1.EventTypeNormal, "BreakGlassOver", "Realize", "policies are enforced again as far as the mode says so")
	}
}
