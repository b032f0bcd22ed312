// Package flowscmd is the command "nephele flows": what was seen of traffic, each connection with
// the policy that decided it.
//
// It owns the flags, the reading of files of flow logs and the printing. Who reads policies and
// clouds it is told (Needs); what a record means is package flows, and which policy decided package
// flows/judge. A command runs once.
package flowscmd
