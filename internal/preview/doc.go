// Package preview computes what applying manifests would change: in the clouds, and in which
// machines reach which.
//
// It owns how manifests replace objects, the warnings that the webhooks would give about them, the
// plans of all accounts together, and the answer of the command plan, as values with text beside
// them. Package plan makes each plan, package forecast finds the flows that it opens and closes,
// and the command prints the answer.
//
// It reads what an Opener gives it, and opens, stores and changes nothing itself. The Opener of the
// command reads clouds; the controller's returns what the controller has read already. A Planner
// and the Inputs that it plans with, which planning changes, belong to one goroutine.
package preview
