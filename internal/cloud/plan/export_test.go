package plan

// Effort returns how often a computation asks whether it takes too long: once for every part of the
// work.
func Effort(in Input, lower Lowerer) (parts int) {
	newPlanning(in, lower, func() bool { parts++; return false }).plan()
	return parts
}

// ComputeWithin is Compute of which a try takes too long once it has asked so often.
func ComputeWithin(in Input, lower Lowerer, parts int) *Result {
	in.Limit = func() (func() bool, func()) {
		left := parts
		return func() bool { left--; return left < 0 }, func() {}
	}
	return compute(in, lower)
}
