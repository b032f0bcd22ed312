// Package checkcmd is the command "nephele check": whether everything is there that Nephele needs.
// Package preflight decides what is checked; the command gives it a cluster, rights and clouds, and
// prints its answers. Nothing is changed.
//
// Concurrency: a command runs once, in one goroutine.
package checkcmd
