// Package form finds a form of rules that fits into the quotas, for what a class of interfaces must
// allow: peers named by the groups of their classes, by a membership group, by a prefix list or by
// blocks of addresses.
//
// It owns the parts of a design of a region, classes and groups, but does not decide the design: it
// answers which rules fit, in which form, and what is missing where none fits. A Lowerer knows how
// many rules one group of the cloud holds (internal/cloud/aws/lower and azure/lower). Answers are
// cached for the rest of an attempt to plan, or for the lifetime of a given recall.
//
// It is pure. One goroutine may use a Fitter at a time.
package form
