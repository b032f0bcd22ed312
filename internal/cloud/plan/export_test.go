package plan

import (
	"math"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Effort returns the work of planning.
func Effort(in Input, lower Lowerer) int {
	effort := &intent.Effort{Most: math.MaxInt}
	newPlanning(in, lower, effort).plan()
	return effort.Spent
}

// ComputeWithin is Compute for which so much work is allowed.
func ComputeWithin(in Input, lower Lowerer, allowance int) *Result {
	return compute(in, lower, allowance)
}
