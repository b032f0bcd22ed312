package realize

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// Sole says whether this instance is the only one that writes to an account.
type Sole struct {
	// State is empty if nobody looks.
	State tenure.State
	// Present says whether there is a network that the cluster claims.
	Present bool
	// Epoch is that of this instance, and Other that of the one that keeps it from writing, with a
	// network that carries his mark.
	Epoch, Other, Region, Network string
	// Unmarked is true if there is a network that the cloud does not let this instance mark.
	Unmarked bool
	// Succeeded is the epoch of an instance whose account was taken over because its marks stood
	// still.
	Succeeded string
	// Asked is Account.TakeOver.
	Asked string
}

// text says it for people.
func (s Sole) text(account string) string {
	where := ""
	if s.Network != "" {
		where = fmt.Sprintf(" (tag %s of %s in %s)", cloud.TagInstance, s.Network, s.Region)
	}
	switch {
	case s.State == tenure.Stopped:
		out := fmt.Sprintf("another instance of this controller with the same cluster id, %s, writes to this "+
			"account%s; this one, %s, writes nothing any more. That is what a copied data directory or a restored "+
			"backup looks like. Stop one of the two; to let this one go on: nephele take-over %s", s.Other, where, s.Epoch, account)
		if s.Asked != "" && s.Asked != s.Other {
			out += fmt.Sprintf(" (it is told to take over from %s, which is not the one that writes)", cloud.Words(s.Asked))
		}
		return out
	case s.State == tenure.Waiting:
		return fmt.Sprintf("the instance %s may still be at work%s: nothing is written until it has not been heard of "+
			"for long enough", s.Other, where)
	case s.Unmarked:
		return "the cloud does not let this instance mark the networks that it claims with the tag " + cloud.TagInstance +
			": policies are enforced, but another instance with the same cluster id would not notice this one"
	case s.Succeeded != "":
		return fmt.Sprintf("this instance, %s, is the only one that writes; it has taken over from %s, of which nothing was "+
			"seen any more", s.Epoch, s.Succeeded)
	}
	return fmt.Sprintf("this instance, %s, is the only one that writes", s.Epoch)
}

// The events about instances: another one writes, and this one has taken over.
const (
	eventAnother  = "AnotherInstance"
	eventTookOver = "TookOver"
)

// condition says it on the account; nil if there is nothing to say.
func (s Sole) condition(account string) *metav1.Condition {
	c := &metav1.Condition{Type: cloudv1.ConditionSoleWriter, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK, Message: s.text(account)}
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
func (s Sole) stoppedBy() string {
	if s.State == tenure.Stopped {
		return s.Other
	}
	return ""
}

// writeSole brings to the account whether this instance is the only one that writes, with an event
// when it is not any more and one when it has taken over; and it removes the word to take over when
// that is done, so that it does nothing another time.
func (s *StatusWriter) writeSole(ctx context.Context, r Report) error {
	if told, known := s.sole[r.Account]; r.Sole.State == "" || known && told == r.Sole {
		return nil
	}
	namespace, name, _ := strings.Cut(r.Account, "/")
	var account cloudv1.CloudProviderAccount
	var before *metav1.Condition
	cond := r.Sole.condition(r.Account)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		account = cloudv1.CloudProviderAccount{}
		if err := s.get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &account); err != nil {
			return err
		}
		before = nil
		if c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionSoleWriter); c != nil {
			before = c.DeepCopy()
		}
		changed := setOrRemove(&account.Status.Conditions, cloudv1.ConditionSoleWriter, cond)
		changed = changed || account.Status.OtherInstance != r.Sole.stoppedBy()
		account.Status.OtherInstance = r.Sole.stoppedBy()
		if !changed {
			return nil
		}
		return s.update(ctx, &account)
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("status of CloudProviderAccount %s: %w", r.Account, err)
	}
	s.tellSole(&account, before, r.Sole)
	if r.Sole.State == tenure.Sole && r.Sole.Asked != "" && account.Annotations[cloudv1.AnnotationTakeOver] == r.Sole.Asked {
		done := account.DeepCopy()
		delete(done.Annotations, cloudv1.AnnotationTakeOver)
		if err := s.Client.Patch(ctx, done, client.MergeFrom(&account)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the annotation %s of CloudProviderAccount %s: %w", cloudv1.AnnotationTakeOver, r.Account, err)
		}
	}
	s.sole[r.Account] = r.Sole
	return nil
}

// tellSole writes the events. before is the condition as it was, also by a former process.
func (s *StatusWriter) tellSole(account *cloudv1.CloudProviderAccount, before *metav1.Condition, is Sole) {
	key := cloud.AccountKey(account.Namespace, account.Name)
	told := s.sole[key]
	wasStopped := before != nil && before.Status == metav1.ConditionFalse
	switch {
	case is.State == tenure.Stopped && (!wasStopped || told.State == tenure.Stopped && told.Other != is.Other):
		s.Events.Eventf(account, nil, corev1.EventTypeWarning, eventAnother, "Realize", "%s", note(is.text(key)))
	case is.State == tenure.Sole && (wasStopped || is.Succeeded != told.Succeeded):
		s.Events.Eventf(account, nil, corev1.EventTypeNormal, eventTookOver, "Realize", "%s", note(is.text(key)))
	}
}
