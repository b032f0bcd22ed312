// Package v1beta2 is the API group controlplane.antrea.io: policies and groups as computed for the
// enforcers, and what the enforcers report back.
//
// It owns the Go types as they are on the wire, in JSON and (by the protobuf struct tags) in
// protobuf. So an Antrea Agent works with Nephele, and Nephele's cloud enforcer works with an
// Antrea Controller.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.antrea.io
package v1beta2
