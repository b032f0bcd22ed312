// Package v1beta1 is the API group system.antrea.io: what the controller says about itself.
//
// It owns the Go types as they are on the wire, in JSON only, as with Antrea. Nothing of it is
// stored.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=system.antrea.io
package v1beta1
