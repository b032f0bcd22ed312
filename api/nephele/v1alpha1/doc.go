// Package v1alpha1 is the API group nephele.io: revisions of policies, which Nephele keeps for
// people and never acts on.
//
// It owns the Go types and their schema markers, from which the CustomResourceDefinitions under
// api/generated/crd are generated. A revision is written once: the schema refuses any change of it
// but of its result.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=nephele.io
package v1alpha1
