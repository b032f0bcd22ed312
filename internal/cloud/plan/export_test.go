package plan

import (
	"math"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Effort returns the work of planning.
func (in Input) Effort(lower Lowerer) int {
	in.recall, in.effort = intent.NewRecall(), &intent.Effort{Most: math.MaxInt}
	in.plan(lower)
	return in.effort.Spent
}

// Allowing bounds the work of planning.
func (in Input) Allowing(round int) Input {
	in.allowance = round
	return in
}
