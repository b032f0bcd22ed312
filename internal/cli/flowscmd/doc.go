// Package flowscmd is the command "nephele flows": observed traffic, each connection with the
// policy that decided it.
//
// It owns the flags, the reading of files of flow logs and the printing. Its caller gives it
// readers of policies and clouds (Needs); package flows knows what a record means, and package
// flows/judge which policy decided. A command runs once.
package flowscmd
