// Package v1alpha1 is the API group set.nephele.io: clusters under one hub.
//
// It owns the Go types and their schema markers, from which the CustomResourceDefinitions under
// api/generated/crd are generated. In the hub, a Cluster represents a member; in a member, a
// Membership represents the hub.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=set.nephele.io
package v1alpha1
