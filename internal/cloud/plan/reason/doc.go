// Package reason has why something is not as policies want it, or what is to be known about it, as
// values: a code, what it is about, the numbers, and the reason behind it.
//
// It owns the codes, and says of each what its objects and numbers are. Every layer of the planner
// gives reasons and may ask for what is behind one; package words alone makes sentences of them.
//
// It is pure. A reason that was handed out is not changed any more, so many may read it at a time.
package reason
