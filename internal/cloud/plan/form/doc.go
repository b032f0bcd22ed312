// Package form finds a form of rules that fits into the quotas, for what a class of interfaces must
// allow: peers named by the groups of their classes, by a membership group, by a prefix list or by
// blocks of addresses.
//
// It owns the parts of a design of a region, classes and groups, but does not decide the design: it
// answers which rules fit, in which form, and what is missing where none fits. How many rules one
// group of the cloud holds is the answer of a Lowerer (internal/cloud/aws/lower and azure/lower).
// Answers are remembered for the rest of an attempt to plan, or for as long as a given recall.
//
// It is pure. One goroutine may use a Fitter at a time.
package form
