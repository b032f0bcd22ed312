// Package resources turns the documents of an Azure subscription's resources in one region into a
// snapshot of the port. It owns what Azure's documents mean: the types, ids and tags of resources,
// pairs of groups, the former groups that an interface remembers, peerings, routes, and the native
// services in front of virtual machines.
//
// It promises that a snapshot says nothing that no document says: Region.Missing names each
// resource that others refer to and that nothing describes, so that a caller can read it, and
// Region.Snapshot is called when nothing is missing any more.
//
// It is pure: no clients, no clock. A Region belongs to one goroutine; everything else is a value.
package resources
