// Package releasecmd is the command "nephele release": break-glass on a virtual machine, a native
// service or an interface, or on everything that a selector selects, with a reason and an end.
//
// It owns the flags and their bounds, and writes the two annotations for it and nothing else, with
// the rights of its user. The cluster decides whether the user may do that, and the controller what
// the annotations do. A command runs once.
package releasecmd
