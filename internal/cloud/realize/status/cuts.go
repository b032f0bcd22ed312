package status

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// cutsCondition lists the flows that other interfaces lose because virtual machines are under
// control; nil if there are none.
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

// nothing marks that there was nothing to report.
const nothing = "nothing"

// writeCuts brings it to the account, and tells in an event when it changes.
func (s *Writer) writeCuts(ctx context.Context, a *accountStatus, r Report) error {
	cond, text := cutsCondition(r.Result.Cuts, r.Seen), nothing
	if cond != nil {
		text = cond.Message
	}
	if a.told.cuts == text {
		return nil
	}
	account, err := s.setCondition(ctx, r.Account, cloudv1.ConditionDependentsCut, cond)
	if err != nil {
		return err
	}
	a.told.cuts = text
	if account != nil && cond != nil {
		s.Events.Eventf(account, nil, corev1.EventTypeWarning, cloudv1.ConditionDependentsCut, "Realize", "%s", note(cond.Message))
	}
	return nil
}
