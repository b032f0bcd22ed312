// Package review answers the reviews of analysis.nephele.io: questions about flows, about machines
// that reach each other, and about the rules in force.
//
// It owns how an answer is written on the wire, for the served API and the commands alike, which
// parts of it a caller may see, and how large it may get. Packages explain and reach compute the
// answers.
//
// Everything is pure: no I/O, no clock, no goroutines. A computation may be asked by many
// goroutines at once.
package review
