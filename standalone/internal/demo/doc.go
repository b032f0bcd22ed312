// Package demo tells a story: it runs everything in one process (control plane, controller and a
// simulated AWS account with the VMs of a real one, and a simulated subscription of Azure with two
// databases), guards these VMs with policies step by step, and shows before and after each step
// which endpoint can reach which, as the simulators decide it from the security groups of both
// clouds.
//
// The expected result of every step is part of the story (expect.go), written by hand and not
// derived from our code. A cell that differs is printed and makes the story fail: it succeeds only
// if every check held.
//
// A second story runs a hub and two clusters, each in its own process (clusters.go). It too states
// what the simulator must find after every step, and ends all processes when it is over.
//
// The manifests that the story applies are written to the data directory, so that everything it
// does can be done again, changed, by hand. Run owns what it starts and has stopped all of it when
// it returns. The package keeps no state.
package demo
