// Package judge says of connections that were seen which policy decided them, and whether what
// happened is what policies and groups say.
//
// It owns the verdict on a row of package flows and what it is compared with. The verdict itself
// comes from package explain, which answers the same question for "nephele explain": there is no
// second evaluator. It promises that every row gets a verdict by something, or the reason why there
// is none, and that it never calls a disagreement what an old connection or an unread account may
// explain.
//
// Everything is pure: no I/O, no clock, no goroutines. A Judge belongs to one goroutine.
package judge
