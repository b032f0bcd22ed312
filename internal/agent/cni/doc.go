// Package cni tells the agent of a Node which addresses a new Pod has, before the Pod runs.
//
// It is a chained CNI plugin (specification 0.3 to 1.1): it comes behind the plugins that make the
// network of a Pod, gives the agent what these have made, waits until the agent enforces the
// policies on the Pod, and returns the result of the others as it is. It owns the plugin, what it
// and the agent say to one another, and how the plugin gets into the configuration of a runtime.
//
// It promises that a Pod does not start before its policies are in force, unless the configuration
// says that it may while the agent is away. Removing a Pod never waits for the agent.
//
// The package is small on purpose: a runtime starts the plugin for each Pod.
package cni
