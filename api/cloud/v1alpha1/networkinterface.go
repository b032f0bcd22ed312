package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkInterfaceSelector selects network interfaces. What is set narrows; at least one of
// vpcMatch, interfaceMatch and tagMatch is.
// +kubebuilder:validation:XValidation:rule="has(self.vpcMatch) || (has(self.interfaceMatch) && size(self.interfaceMatch) > 0) || (has(self.tagMatch) && size(self.tagMatch) > 0)",message="one of vpcMatch, interfaceMatch and tagMatch must be set"
type NetworkInterfaceSelector struct {
	// VpcMatch selects the interfaces of one VPC. Alone it selects those that are attached to no
	// virtual machine.
	// +optional
	VpcMatch *EntityMatch `json:"vpcMatch,omitempty"`
	// InterfaceMatch selects the interfaces that any of the entries matches. None means all.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	InterfaceMatch []EntityMatch `json:"interfaceMatch,omitempty"`
	// TagMatch selects the interfaces that all of the entries match. None means all.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=key
	// +optional
	TagMatch []TagMatch `json:"tagMatch,omitempty"`
}

// InterfaceOwnerKind says what a network interface is attached to.
// +kubebuilder:validation:Enum=VirtualMachine;Service
type InterfaceOwnerKind string

// What an interface may be attached to.
const (
	// InterfaceOfVirtualMachine is attached to a virtual machine, selected or not.
	InterfaceOfVirtualMachine InterfaceOwnerKind = "VirtualMachine"
	// InterfaceOfService was made by a service of the cloud, which alone sets its groups.
	InterfaceOfService InterfaceOwnerKind = "Service"
)

// NetworkInterfaceOwner is what an interface is attached to.
type NetworkInterfaceOwner struct {
	// Kind says what it is.
	Kind InterfaceOwnerKind `json:"kind"`
	// CloudId is its id in the cloud; empty if the cloud does not tell.
	// +optional
	CloudId string `json:"cloudId,omitempty"`
	// CloudName is its name there.
	// +optional
	CloudName string `json:"cloudName,omitempty"`
}

// NetworkInterfaceStatus is what is known of the interface.
type NetworkInterfaceStatus struct {
	ImportedStatus `json:",inline"`

	// Type is what the cloud calls interfaces like this one, where a service has made it.
	// +optional
	Type string `json:"type,omitempty"`
	// Description is what its maker wrote.
	// +optional
	Description string `json:"description,omitempty"`
	// CloudSubnetId is the id of its subnet.
	CloudSubnetId string `json:"cloudSubnetId,omitempty"`
	// MAC is the hardware address.
	// +optional
	MAC string `json:"mac,omitempty"`
	// IPs are the addresses, private and public.
	// +listType=atomic
	// +optional
	IPs []IPAddress `json:"ips,omitempty"`
	// AttachedTo is what it is attached to; absent if it is free.
	// +optional
	AttachedTo *NetworkInterfaceOwner `json:"attachedTo,omitempty"`
}

// NetworkInterface is an imported network interface that policies name by itself: a free one, one
// of a virtual machine that is not imported, or one that a service of the cloud has made.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=nic,scope=Namespaced
// +kubebuilder:printcolumn:name="Interface",type=string,JSONPath=`.status.cloudName`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.status.addresses`
// +kubebuilder:printcolumn:name="Attached-To",type=string,JSONPath=`.status.attachedTo.cloudId`
// +kubebuilder:printcolumn:name="Settable",type=boolean,JSONPath=`.status.settable`
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.status.policySummary`
// +kubebuilder:printcolumn:name="Region",type=string,priority=1,JSONPath=`.status.region`
// +kubebuilder:printcolumn:name="Virtual-Private-Cloud",type=string,priority=1,JSONPath=`.status.cloudVpcId`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.status.cloudId`
// +kubebuilder:selectablefield:JSONPath=`.status.region`
type NetworkInterface struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status NetworkInterfaceStatus `json:"status,omitempty"`
}

// NetworkInterfaceList is a list of NetworkInterface.
// +kubebuilder:object:root=true
type NetworkInterfaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NetworkInterface `json:"items"`
}
