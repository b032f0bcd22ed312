// Package review answers the reviews of analysis.nephele.io: questions about flows, about who
// reaches whom, and about the rules that hold.
//
// It owns how an answer is written on the wire, for the served API and the commands alike, what of
// it a caller may see, and how large it may get. What the answer is, explain and reach know.
//
// Everything is pure: no I/O, no clock, no goroutines. A computation may be asked by many
// goroutines at once.
package review
