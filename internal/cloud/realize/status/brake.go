package status

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/realize/brake"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// brakedText says of a VM, or of a policy on it, what it waits for.
func brakedText(account string) string {
	return "waits for a confirmation of the account " + account + ", see its condition " + cloudv1.ConditionBraked
}

// isBraked reports whether the conditions of a VM say that it waits for a confirmation.
func isBraked(conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, cloudv1.ConditionRealized)
	return c != nil && c.Reason == cloudv1.ReasonConfirmationNeeded
}

// brakedCondition is the condition Braked of an account; nil if there is nothing to say.
func brakedCondition(b brake.State, force string) *metav1.Condition {
	switch {
	case b.Waiting != nil:
		text := render.WaitingFor(b.Waiting)
		if b.Given != "" && b.Given != b.Confirmed {
			text += fmt.Sprintf(". The annotation %s is %q, which does not confirm this", cloudv1.AnnotationConfirm, shortened(b.Given))
		}
		if force != "" {
			text += fmt.Sprintf(". The annotation %s alone forces nothing of this: it takes both", cloudv1.AnnotationForce)
		}
		return &metav1.Condition{Type: cloudv1.ConditionBraked, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonConfirmationNeeded, Message: text}
	case b.Confirmed != "":
		return &metav1.Condition{Type: cloudv1.ConditionBraked, Status: metav1.ConditionFalse, Reason: cloudv1.ReasonConfirmed,
			Message: fmt.Sprintf("%s is confirmed and on its way", b.Confirmed)}
	}
	return nil
}

// shortened is a text that somebody gave, as far as it may be repeated.
func shortened(text string) string {
	const most = 40
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// writeBrake tells in the condition of the account, and when it begins in an event, what waits for
// a confirmation, and takes a confirmation away that is used up.
func (s *Writer) writeBrake(ctx context.Context, a *accountStatus, r Report) error {
	want := brakedCondition(r.Brake, r.Force)
	spent := map[string]string{cloudv1.AnnotationConfirm: r.Brake.Spent}
	if r.ForceSpent {
		spent[cloudv1.AnnotationForce] = r.Force
	}
	before := a.told.braked
	if r.Brake.Early || before != nil && !*before && want == nil && r.Brake.Spent == "" && !r.ForceSpent {
		return nil
	}
	key := keyOf(r.Account)
	account := &cloudv1.CloudProviderAccount{}
	var old *metav1.Condition
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := s.get(ctx, key, account); err != nil {
			return err
		}
		old = nil
		if c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionBraked); c != nil {
			old = c.DeepCopy()
		}
		if setOrRemove(&account.Status.Conditions, cloudv1.ConditionBraked, want) {
			if err := s.update(ctx, account); err != nil {
				return err
			}
		}
		return s.takeAway(ctx, account, spent)
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("condition %s of account %s: %w", cloudv1.ConditionBraked, key, err)
	}
	says := want != nil
	a.told.braked = &says
	waited := old != nil && old.Status == metav1.ConditionTrue
	switch waits := want != nil && want.Status == metav1.ConditionTrue; {
	case waits && !waited:
		s.Events.Eventf(account, nil, corev1.EventTypeWarning, cloudv1.ReasonConfirmationNeeded, "Realize", "%s", note(want.Message))
	case waited && !waits && r.Brake.Confirmed != "":
		s.Events.Eventf(account, nil, corev1.EventTypeNormal, cloudv1.ReasonConfirmed, "Realize", "%s", note(want.Message))
	case waited && !waits:
		s.Events.Eventf(account, nil, corev1.EventTypeNormal, "BrakeOver", "Realize", "nothing waits for a confirmation any more")
	}
	return nil
}

// takeAway removes annotations whose values are used up, unless there is another one by now.
func (s *Writer) takeAway(ctx context.Context, account *cloudv1.CloudProviderAccount, spent map[string]string) error {
	base := account.DeepCopy()
	maps.DeleteFunc(account.Annotations, func(key, value string) bool {
		hash, _, _ := strings.Cut(value, cloudv1.ForceBy)
		return spent[key] != "" && (value == spent[key] || hash == spent[key])
	})
	if len(account.Annotations) == len(base.Annotations) {
		return nil
	}
	if err := s.Client.Patch(ctx, account, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	s.wrote[written{fmt.Sprintf("%T", account), client.ObjectKeyFromObject(account)}] = account.GetResourceVersion()
	return nil
}
