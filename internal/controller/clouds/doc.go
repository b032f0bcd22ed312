// Package clouds is the table of the clouds that are supported, and opens their accounts.
//
// It owns which clouds there are, what makes the rules of each, and what an account may use of the
// process that serves it. The controller and commands that look at accounts by themselves take both
// from here, without the loops of the controller. Opening an account calls nothing.
//
// It has no state; everything may be called at the same time.
package clouds
