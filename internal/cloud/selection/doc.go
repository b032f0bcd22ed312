// Package selection decides what the selectors of a cloud account choose, and what stands for it.
//
// It owns: which VM, native service or interface of a snapshot a CloudEntitySelector selects, which
// selectors an account lets select (Granted), what may be done to what is selected (its mode, a
// release in an emergency, and which namespaces have a say in either), and the objects that stand
// for it: VirtualMachine, Vpc, CloudNativeService, NetworkInterface, ExternalEntity, ExternalNode
// and Group, with their names, labels and the part of their status that tells what the cloud shows.
//
// It promises: the same View gives the same objects. A selector that the account does not grant
// anything has no effect, and neither has a mode or break-glass of a namespace that has no say, but
// that both are told. Of two VMs whose objects would have one name, the one that has the object
// keeps it.
//
// It reads nothing and writes nothing: package inventory, the loop, brings what it finds and writes
// what should be; package preview asks what the loop would do (Preview). The time is passed in.
//
// Concurrency: all functions are pure. What they return shares memory with what they were given,
// and neither is to be changed afterwards.
package selection
