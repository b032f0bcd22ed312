// Package v1alpha1 is the API group stats.antrea.io: what the enforcers have counted, added up per
// policy, and what they report of multicast and of the latency between Nodes.
//
// It owns the Go types as they are on the wire, in JSON and (by the protobuf struct tags) in
// protobuf, so that antctl and Antrea's clients read them. Nothing of it is stored: counters begin
// anew with the controller.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=stats.antrea.io
package v1alpha1
