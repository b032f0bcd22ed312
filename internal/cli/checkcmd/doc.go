// Package checkcmd is the command "nephele check": whether everything is there that Nephele needs.
// What is looked at, package preflight says; here it gets a cluster, rights and clouds, and its
// answers are printed. Nothing is changed.
//
// Concurrency: a command runs once, in one goroutine.
package checkcmd
