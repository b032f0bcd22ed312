package status

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// The reasons of the events of a VM.
const (
	eventRealized = "PolicyRealized"
	eventFailed   = "PolicyFailed"
	eventReleased = "Released"
)

// mostTold is how many VMs get an event for the same reason because of one plan. Of more, the
// account gets one that sums up: thousands of events that say the same bury the others, and cost as
// much as the statuses, which say it anyway.
const mostTold = 50

// tellPolicies writes the events of a change of the policies of a VM, service or interface: each
// version of a policy is reported once as realized, and whenever it begins to fail or fails for
// another reason. The release of a VM is reported when nothing waits for a confirmation any more.
func (s *Writer) tellPolicies(a *accountStatus, on subject, conditions []metav1.Condition, before, after []cloudv1.AppliedPolicy) {
	known := map[types.UID]cloudv1.AppliedPolicy{}
	for _, p := range before {
		known[p.UID] = p
	}
	told := map[types.UID]int64{}
	var failed, realized []string
	for _, p := range after {
		old, name := known[p.UID], strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
		reported := a.told.versions[on.GetUID()][p.UID]
		if old.Phase == cloudv1.PolicyPhaseRealized {
			reported = max(reported, old.Generation) // by a former process
		}
		switch p.Phase {
		case cloudv1.PolicyPhaseFailed:
			if old.Phase != p.Phase || old.Message != p.Message {
				failed = append(failed, name+": "+p.Message)
			}
			reported = 0
		case cloudv1.PolicyPhaseRealized:
			if reported != p.Generation {
				realized = append(realized, name)
			}
			reported = p.Generation
		}
		told[p.UID] = reported
	}
	a.told.versions[on.GetUID()] = told
	// One event for all policies: a second one with the same reason would only be counted, and
	// its text would be lost.
	if len(failed) > 0 {
		s.say(a, on, corev1.EventTypeWarning, eventFailed, strings.Join(failed, "; "))
	}
	if len(realized) == 1 {
		s.say(a, on, corev1.EventTypeNormal, eventRealized, realized[0]+" is enforced on this "+on.word)
	} else if len(realized) > 1 {
		s.say(a, on, corev1.EventTypeNormal, eventRealized, strings.Join(realized, ", ")+" are enforced on this "+on.word)
	}
	if len(after) == 0 && !isBraked(*on.conditions) && (len(before) > 0 || isBraked(conditions)) {
		delete(a.told.versions, on.GetUID())
		text := "no policy applies any more; the " + on.word + " is under its own security groups"
		if c := meta.FindStatusCondition(conditions, cloudv1.ConditionFormerGroupsDeleted); c != nil {
			text = "no policy applies any more; the " + on.word + " is given back without groups that were deleted meanwhile: " + c.Message
		}
		s.say(a, on, corev1.EventTypeNormal, eventReleased, text)
	}
}

// say writes an event of a VM, service or interface, unless many have had one for the same reason.
func (s *Writer) say(a *accountStatus, on subject, kind, reason, text string) {
	if a.told.chorus[reason]++; a.told.chorus[reason] > mostTold {
		return
	}
	s.Events.Eventf(on.Object, nil, kind, reason, "Realize", "%s", note(text))
}

// sumUp reports on the account what was not reported on each VM.
func (s *Writer) sumUp(ctx context.Context, a *accountStatus, r Report) error {
	most := slices.Max(append(slices.Collect(maps.Values(a.told.chorus)), 0))
	if most <= mostTold {
		clear(a.told.chorus)
		return nil
	}
	account, err := s.account(ctx, r)
	if err != nil || account == nil {
		return err
	}
	for _, e := range []struct{ reason, kind, text string }{
		{eventFailed, corev1.EventTypeWarning, "policies have begun to fail, or fail for another reason"},
		{eventRealized, corev1.EventTypeNormal, "policies are enforced that were not before"},
		{eventReleased, corev1.EventTypeNormal, "no policy applies any more"},
	} {
		if more := a.told.chorus[e.reason] - mostTold; more > 0 {
			s.Events.Eventf(account, nil, e.kind, e.reason, "Realize", "on %s besides those with an event of their own, %s; the status of each tells which",
				cloud.Counted(more, "VM"), e.text)
		}
	}
	clear(a.told.chorus)
	return nil
}
