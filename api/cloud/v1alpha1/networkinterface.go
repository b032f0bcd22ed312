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
	// Provider is the cloud.
	Provider CloudProvider `json:"provider,omitempty"`
	// Type is what the cloud calls interfaces like this one, where a service has made it.
	// +optional
	Type string `json:"type,omitempty"`
	// CloudId is its id in the cloud.
	CloudId string `json:"cloudId,omitempty"`
	// CloudName is its name there: on AWS the value of its tag Name.
	CloudName string `json:"cloudName,omitempty"`
	// Description is what its maker wrote.
	// +optional
	Description string `json:"description,omitempty"`
	// Region it is in.
	Region string `json:"region,omitempty"`
	// CloudVpcId is the id of its VPC.
	CloudVpcId string `json:"cloudVpcId,omitempty"`
	// CloudVpcName is the name of its VPC.
	CloudVpcName string `json:"cloudVpcName,omitempty"`
	// CloudSubnetId is the id of its subnet.
	CloudSubnetId string `json:"cloudSubnetId,omitempty"`
	// Tags of the interface in the cloud.
	Tags map[string]string `json:"tags,omitempty"`
	// MAC is the hardware address.
	// +optional
	MAC string `json:"mac,omitempty"`
	// DNSName is the private name that the cloud gave it.
	// +optional
	DNSName string `json:"dnsName,omitempty"`
	// IPs are the addresses, private and public.
	// +listType=atomic
	// +optional
	IPs []IPAddress `json:"ips,omitempty"`
	// Addresses are the same in short, for people.
	// +optional
	Addresses string `json:"addresses,omitempty"`
	// AttachedTo is what it is attached to; absent if it is free.
	// +optional
	AttachedTo *NetworkInterfaceOwner `json:"attachedTo,omitempty"`
	// SecurityGroupIds are the security groups of the interface.
	// +listType=atomic
	// +optional
	SecurityGroupIds []string `json:"securityGroupIds,omitempty"`
	// FormerSecurityGroupIds are those that it had of its own, while policies guard it by others.
	// +listType=atomic
	// +optional
	FormerSecurityGroupIds []string `json:"formerSecurityGroupIds,omitempty"`
	// Mode is what may be done to the interface, all selectors considered; empty if policies are
	// enforced on it.
	// +optional
	Mode string `json:"mode,omitempty"`
	// ModeReason says which object decides the mode, and for break-glass why.
	// +optional
	ModeReason string `json:"modeReason,omitempty"`
	// Settable says that policies may apply to the interface: its security groups can be set, and
	// it belongs to nothing else that policies apply to.
	// +optional
	Settable bool `json:"settable"`
	// NotSettable says why policies cannot apply; empty if they can.
	// +optional
	NotSettable string `json:"notSettable,omitempty"`
	// Conditions: Observed; Realized, once a policy applies; in mode plan, Planned; in mode
	// break-glass, BreakGlass; RecordsSigned if the record of its own groups is not believed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// UnimportedTags are the tags that are no legal label, sorted by key.
	// +listType=atomic
	// +optional
	UnimportedTags []UnimportedTag `json:"unimportedTags,omitempty"`
	// Policies that apply to the interface, sorted by kind, namespace and name.
	// +listType=map
	// +listMapKey=uid
	// +optional
	Policies []AppliedPolicy `json:"policies,omitempty"`
	// PolicySummary is "realized/all" of Policies, for example 2/3; empty when no policy applies.
	// +optional
	PolicySummary string `json:"policySummary,omitempty"`
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
