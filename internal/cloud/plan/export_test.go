package plan

import "math"

// Effort returns the work of planning.
func (in Input) Effort(lower Lowerer) int {
	in.recall, in.effort, in.lacks = newRecall(), &effort{most: math.MaxInt}, lacks{}
	in.plan(lower)
	return in.effort.spent
}

// Allowing bounds the work of planning.
func (in Input) Allowing(round int) Input {
	in.allowance = &allowance{round: round, advice: round}
	return in
}
