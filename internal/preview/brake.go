package preview

import (
	"k8s.io/apimachinery/pkg/api/meta"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/cloud/realize"
)

// braked finds out what of a plan would wait for a confirmation. What is planned takes VMs in mode
// plan to be enforced; the controller does not.
func braked(a realize.Account, actual plan.Input, enforced *plan.Result) *analysis.PlanBrake {
	w, once := enforced.Protection.Weigh(a.Brake, a.Key), false
	for _, m := range actual.Modes {
		if m == plan.Planned {
			now := plan.Compute(actual, a.Lowerer).Protection.Weigh(a.Brake, a.Key)
			if once = now == nil; !once {
				w = now
			}
			break
		}
	}
	if w == nil {
		return nil
	}
	return &analysis.PlanBrake{
		Message: render.Waiting(w), Hash: w.Hash, Command: render.Confirming(w), Confirmed: a.Confirm == w.Hash && !once, OnceEnforced: once,
		Percent: int32(w.Brake.Percent), Interfaces: int32(w.Brake.Interfaces),
		Released: int32(len(w.Released)), Controlled: int32(w.Control), Guarded: int32(len(w.Guarded)), All: int32(w.All),
	}
}

// BrakedLive is what the controller says to wait for.
func (p *Planner) BrakedLive(key string) string {
	for _, a := range p.In.Objects.Accounts {
		if a.Namespace+"/"+a.Name != key {
			continue
		}
		if c := meta.FindStatusCondition(a.Status.Conditions, cloudv1alpha1.ConditionBraked); c != nil &&
			c.Reason == cloudv1alpha1.ReasonConfirmationNeeded {
			return c.Message
		}
	}
	return ""
}
