package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkInterface is a network interface of an external node.
type NetworkInterface struct {
	// Name of the interface in the operating system, or its cloud id.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
	// IPs of the interface, IPv4 or IPv6.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="ips must be IPv4 or IPv6 addresses, an IPv4 address without ::ffff: before it"
	// +listType=atomic
	// +optional
	IPs []string `json:"ips,omitempty"`
}

// ExternalNodeSpec is the content of an ExternalNode.
type ExternalNodeSpec struct {
	// Interfaces to guard; exactly one.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	// +listType=atomic
	Interfaces []NetworkInterface `json:"interfaces"`
}

// ExternalNode is a host outside the cluster that runs an agent. Its name is unique among all
// namespaces.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=en,scope=Namespaced
type ExternalNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ExternalNodeSpec `json:"spec"`
}

// ExternalNodeList is a list of ExternalNode.
// +kubebuilder:object:root=true
type ExternalNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ExternalNode `json:"items"`
}
