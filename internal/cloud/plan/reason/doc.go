// Package reason represents why something is not as policies want it, or a fact that users should
// know about it, as values: a code, the objects, the numbers, and the reason behind it.
//
// It owns the codes, and says of each what its objects and numbers are. Every layer of the planner
// gives reasons and may inspect the reason behind one; only package words turns them into
// sentences.
//
// It is pure. A reason never changes after it is returned, so any number of goroutines may read it.
package reason
