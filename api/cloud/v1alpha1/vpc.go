package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VpcStatus is what is known of the virtual private cloud.
type VpcStatus struct {
	// CloudName is its name in the cloud.
	CloudName string `json:"cloudName,omitempty"`
	// CloudId is its id in the cloud.
	CloudId string `json:"cloudId,omitempty"`
	// Provider is the cloud.
	Provider CloudProvider `json:"provider,omitempty"`
	// Region it is in.
	Region string `json:"region,omitempty"`
	// Tags it has in the cloud.
	Tags map[string]string `json:"tags,omitempty"`
	// Cidrs are its address ranges, IPv4 and IPv6.
	// +listType=atomic
	Cidrs []string `json:"cidrs,omitempty"`
	// Managed says that at least one selected virtual machine is in it.
	// +optional
	// +kubebuilder:default=false
	Managed bool `json:"managed"`
	// Conditions: Observed, and Claimed if policies apply in it.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Vpc is a virtual private cloud (VNET on Azure) of an account.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vpc,scope=Namespaced
// +kubebuilder:printcolumn:name="Cloud Provider",type=string,JSONPath=`.status.provider`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.status.region`
// +kubebuilder:printcolumn:name="Managed",type=boolean,JSONPath=`.status.managed`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.status.cloudId`
// +kubebuilder:selectablefield:JSONPath=`.status.region`
type Vpc struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status VpcStatus `json:"status,omitempty"`
}

// VpcList is a list of Vpc.
// +kubebuilder:object:root=true
type VpcList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Vpc `json:"items"`
}
