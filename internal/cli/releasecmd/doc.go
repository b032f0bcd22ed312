// Package releasecmd is the command "nephele release": break-glass on a virtual machine, a native
// service or an interface, or on all that a selector selects, with a reason and an end.
//
// It owns the flags and their bounds, and writes the two annotations for it and nothing else, with
// the rights of the person who runs it. Who may do that decides the cluster; what the annotations
// mean decides the controller. A command runs once.
package releasecmd
