// Package v1alpha1 is the version v1alpha1 of the API group crd.antrea.io: ExternalNode,
// hosts outside the cluster that run an agent.
//
// It owns the Go types and their schema markers, from which the CustomResourceDefinition under
// api/generated/crd is generated. The types are plain values: as safe for concurrent use as any
// struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=crd.antrea.io
package v1alpha1
