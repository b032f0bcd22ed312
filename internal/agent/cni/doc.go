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
//
// # Why new Pods wait
//
// The API has a Pod's addresses when its containers may have started. Until then an agent can only
// cut off unknown addresses, and takes a reused one for the former Pod's. So the addresses that the
// runtime gives count before the API's, and the plugin (10 MB, 4 ms) asks the agent on its
// root-only socket. The agent answers when its watch has the Pod; the controller says that it knows
// it (GroupAssociation); every group and policy of the Pod is in watches opened after that answer;
// and the kernel has the rules. All waiting Pods share such watches. It fails closed: only Pods of
// essential namespaces start without a controller that answers. A Pod starts later by about the
// delay of the controller's watch.
//
// Attachments are kept with the agent's state, and end by DEL, GC, with the Pod, or when another
// Pod gets the address. For two minutes after DEL the API does not count for the address. The agent
// chains the plugin and looks every five seconds whether it still is. Removing the agents without
// the plugin keeps Pods from starting. By names alone the controller cannot tell a Pod from a
// former one of the same name.
//
// Not chosen: the program nephele as the plugin, which takes 200 MB, 37 ms and 95 MB of memory at
// each call; waiting for a while, which proves nothing; NRI, which is not in every runtime, and not
// switched on.
package cni
