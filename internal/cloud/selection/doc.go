// Package selection decides what the selectors of a cloud account choose, and which objects
// represent it.
//
// It owns: which VM, native service or interface of a snapshot a CloudEntitySelector selects; which
// selectors an account admits (Granted); the mode of what is selected, its release in an emergency,
// and which namespaces have a say in either; and the objects VirtualMachine, Vpc,
// CloudNativeService, NetworkInterface, ExternalEntity, ExternalNode and Group that represent it,
// with their names, labels, and the part of their status that reports what the cloud shows.
//
// It promises: the same View gives the same objects. A selector that the account does not admit has
// no effect, and neither has a mode or break-glass of a namespace without a say; their status says
// so. If the objects of two VMs would have one name, the VM that already has the object keeps it.
//
// It reads and writes nothing: package inventory, the loop, brings the View and writes the objects;
// package preview asks what the loop would do (Preview). The time is passed in.
//
// Concurrency: all functions are pure. What they return shares memory with what they were given,
// and neither is to be changed afterwards.
package selection
