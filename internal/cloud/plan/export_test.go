package plan

import (
	"math"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

// Effort returns the work of planning.
func (in Input) Effort(lower Lowerer) int {
	in.recall, in.effort, in.lacks = intent.NewRecall(), &intent.Effort{Most: math.MaxInt}, target.Lacks{}
	in.plan(lower)
	return in.effort.Spent
}

// Allowing bounds the work of planning.
func (in Input) Allowing(round int) Input {
	in.allowance = &allowance{round: round, advice: round}
	return in
}
