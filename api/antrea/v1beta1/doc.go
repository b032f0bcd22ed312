// Package v1beta1 is the version v1beta1 of the API group crd.antrea.io: network policies, tiers
// and groups, and the status that controller and agents report of themselves.
//
// It owns the Go types and their schema markers, from which the CustomResourceDefinitions under
// api/generated/crd are generated. Names, enumerations and defaults are those of Antrea 2.x, with
// one addition: a peer or an appliedTo may have an external entity selector. One set of Go types
// serves both kinds of policy. A validation rule refuses a field that the kind does not have; it is
// not dropped.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=crd.antrea.io
package v1beta1
