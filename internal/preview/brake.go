package preview

import (
	"k8s.io/apimachinery/pkg/api/meta"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/cloud/realize"
)

// PlannedBrake says that, or when, the controller holds a change until it is confirmed.
type PlannedBrake struct {
	// Message says it for people.
	Message string `json:"message"`
	// Hash confirms the change, and Command is how. Confirmed is true if the account has that
	// confirmation.
	Hash      string `json:"hash"`
	Command   string `json:"command"`
	Confirmed bool   `json:"confirmed"`
	// OnceEnforced is true if nothing waits before VMs in mode plan are enforced.
	OnceEnforced bool `json:"onceEnforced"`
	// Percent and Interfaces are the account's spec.brake, with its defaults.
	Percent    int `json:"percent"`
	Interfaces int `json:"interfaces"`
	// Released of Controlled interfaces would be given back, and Guarded of all VMs' interfaces
	// newly taken under control. What does not wait counts as 0.
	Released   int `json:"released"`
	Controlled int `json:"controlled"`
	Guarded    int `json:"guarded"`
	All        int `json:"all"`
}

// braked finds out what of a plan would wait for a confirmation. What is planned takes VMs in mode
// plan to be enforced; the controller does not.
func braked(a realize.Account, actual plan.Input, enforced *plan.Result) *PlannedBrake {
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
	return &PlannedBrake{
		Message: render.Waiting(w), Hash: w.Hash, Command: render.Confirming(w), Confirmed: a.Confirm == w.Hash && !once, OnceEnforced: once,
		Percent: w.Brake.Percent, Interfaces: w.Brake.Interfaces, Released: len(w.Released), Controlled: w.Control, Guarded: len(w.Guarded), All: w.All,
	}
}

// BrakedLive is what the controller says to wait for.
func (p *Planner) BrakedLive(key string) string {
	for _, a := range p.In.Accounts {
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
