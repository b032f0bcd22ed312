package plan

import "math"

// Effort returns the work of designing a round, and of that together with all rounds that are played before its first operation.
func (in Input) Effort(lower Lowerer) (round, all int) {
	in.recall, in.effort = newRecall(), &effort{most: math.MaxInt}
	out, c := computeAtOnce(in, lower)
	round = in.effort.spent
	in.foresee(out, c, lower)
	return round, in.effort.spent
}

// Allowing bounds the work of designing a round, and of playing those to come.
func (in Input) Allowing(round, ahead int) Input {
	in.allowance = &allowance{round: round, succession: round, ahead: ahead, advice: ahead}
	return in
}

// Foretold identifies the state that the plan leads to, as the planner sees it before.
func (in Input) Foretold(p Plan) string { return in.applied(p).fingerprint() }

// Fingerprint identifies the observed state.
func (in Input) Fingerprint() string { return in.fingerprint() }
