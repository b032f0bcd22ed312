package status

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// cutsCondition says what others lose because virtual machines are under control; nil if nobody
// loses anything.
func cutsCondition(cuts []plan.Cut, seen map[string]*cloud.Snapshot) *metav1.Condition {
	if len(cuts) == 0 {
		return nil
	}
	var parts []string
	for _, c := range cuts {
		parts = append(parts, c.Region+" "+render.CutIn(seen[c.Region], c))
	}
	parts = cloud.Some(parts, maxTold, render.SeeAll)
	return &metav1.Condition{Type: cloudv1.ConditionDependentsCut, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonFlowsLost, Message: strings.Join(parts, "; ")}
}

// writeCuts brings it to the account, and tells in an event when it changes.
func (s *Writer) writeCuts(ctx context.Context, r Report) error {
	cond := cutsCondition(r.Result.Cuts, r.Seen)
	text := "nothing"
	if cond != nil {
		text = cond.Message
	}
	if s.cutsTold[r.Account] == text {
		return nil
	}
	namespace, name, _ := strings.Cut(r.Account, "/")
	var account cloudv1.CloudProviderAccount
	changed := false
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		account = cloudv1.CloudProviderAccount{}
		if err := s.get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &account); err != nil {
			return err
		}
		if changed = setOrRemove(&account.Status.Conditions, cloudv1.ConditionDependentsCut, cond); !changed {
			return nil
		}
		return s.update(ctx, &account)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("condition %s of account %s: %w", cloudv1.ConditionDependentsCut, r.Account, err)
	}
	s.cutsTold[r.Account] = text
	if changed && cond != nil {
		s.Events.Eventf(&account, nil, corev1.EventTypeWarning, cloudv1.ConditionDependentsCut, "Realize", "%s", note(cond.Message))
	}
	return nil
}
