// Package v1alpha1 is the API group crd.cloud.antrea.io: the cloud accounts that Nephele works on,
// the selection of the virtual machines it guards there, and what it found.
//
// It owns the Go types, their schema markers (from which the CustomResourceDefinitions under
// api/generated/crd are generated) and the label, condition and Secret vocabulary that goes with
// them. The fields that Nephe v0.6 has are kept by name and meaning, so that its manifests apply
// unchanged; everything Nephele adds is optional.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=crd.cloud.antrea.io
package v1alpha1
