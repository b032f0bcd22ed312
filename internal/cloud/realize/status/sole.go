package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// The events about instances: another one writes, and this one has taken over.
const (
	eventAnother  = "AnotherInstance"
	eventTookOver = "TookOver"
)

// soleCondition says on the account whether this instance is the only one that writes; nil if there
// is nothing to say.
func soleCondition(s instance.Sole, account string) *metav1.Condition {
	c := &metav1.Condition{Type: cloudv1.ConditionSoleWriter, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK, Message: s.Text(account)}
	switch {
	case s.State == tenure.Stopped:
		c.Status, c.Reason = metav1.ConditionFalse, cloudv1.ReasonAnotherInstance
	case s.State == tenure.Waiting:
		c.Status, c.Reason = metav1.ConditionUnknown, cloudv1.ReasonPending
	case s.Unmarked:
		c.Status, c.Reason = metav1.ConditionUnknown, cloudv1.ReasonNotMarked
	case !s.Present:
		return nil
	}
	return c
}

// stoppedBy is what status.otherInstance says.
func stoppedBy(s instance.Sole) string {
	if s.State == tenure.Stopped {
		return s.Other
	}
	return ""
}

// writeSole brings to the account whether this instance is the only one that writes, with an event
// when it is not any more and one when it has taken over; and it removes the word to take over when
// that is done, so that it does nothing another time.
func (s *Writer) writeSole(ctx context.Context, a *accountStatus, r Report) error {
	if r.Sole.State == "" || a.told.sole == r.Sole {
		return nil
	}
	var before *metav1.Condition
	cond := soleCondition(r.Sole, r.Account)
	account, err := change(ctx, s, keyOf(r.Account), func(on *cloudv1.CloudProviderAccount) bool {
		before = nil
		if c := meta.FindStatusCondition(on.Status.Conditions, cloudv1.ConditionSoleWriter); c != nil {
			before = c.DeepCopy()
		}
		changed := setOrRemove(&on.Status.Conditions, cloudv1.ConditionSoleWriter, cond)
		changed = changed || on.Status.OtherInstance != stoppedBy(r.Sole)
		on.Status.OtherInstance = stoppedBy(r.Sole)
		return changed
	})
	if account == nil {
		return err
	}
	s.tellSole(a, account, before, r.Sole)
	if r.Sole.State == tenure.Sole && r.Sole.Asked != "" && account.Annotations[cloudv1.AnnotationTakeOver] == r.Sole.Asked {
		done := account.DeepCopy()
		delete(done.Annotations, cloudv1.AnnotationTakeOver)
		if err := s.Client.Patch(ctx, done, client.MergeFrom(account)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the annotation %s of CloudProviderAccount %s: %w", cloudv1.AnnotationTakeOver, r.Account, err)
		}
	}
	a.told.sole = r.Sole
	return nil
}

// tellSole writes the events. before is the condition as it was, also by a former process.
func (s *Writer) tellSole(a *accountStatus, account *cloudv1.CloudProviderAccount, before *metav1.Condition, is instance.Sole) {
	key := cloud.AccountKey(account.Namespace, account.Name)
	told := a.told.sole
	wasStopped := before != nil && before.Status == metav1.ConditionFalse
	switch {
	case is.State == tenure.Stopped && (!wasStopped || told.State == tenure.Stopped && told.Other != is.Other):
		s.Events.Eventf(account, nil, corev1.EventTypeWarning, eventAnother, "Realize", "%s", note(is.Text(key)))
	case is.State == tenure.Sole && (wasStopped || is.Succeeded != told.Succeeded):
		s.Events.Eventf(account, nil, corev1.EventTypeNormal, eventTookOver, "Realize", "%s", note(is.Text(key)))
	}
}
