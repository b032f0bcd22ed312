// Package judge finds the policy that decided an observed connection, and whether policies and
// groups agree with what happened.
//
// It owns the comparison of a row of package flows with its verdict. The verdict comes from package
// explain, which answers the same question for "nephele explain": there is no second evaluator. It
// promises that every row gets a verdict or the reason why there is none, and that it reports no
// disagreement that an old connection or an unread account may explain.
//
// Everything is pure: no I/O, no clock, no goroutines. A Judge belongs to one goroutine.
package judge
