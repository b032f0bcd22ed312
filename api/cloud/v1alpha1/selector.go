package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EntityMatch matches a cloud resource by its id or by its name, exactly one of which is set.
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="(has(self.matchID) && size(self.matchID) > 0) != (has(self.matchName) && size(self.matchName) > 0)",message="exactly one of matchID and matchName must be set"
type EntityMatch struct {
	// MatchID is the id that the cloud gave the resource. On Azure, case does not matter.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	MatchID string `json:"matchID,omitempty"`
	// MatchName is the name of the resource; on AWS, the value of its tag Name. There are no
	// wildcards.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	MatchName string `json:"matchName,omitempty"`
}

// TagMatch matches a cloud resource by one of its tags. Key and values are compared exactly.
type TagMatch struct {
	// Key of the tag.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Key string `json:"key"`
	// Values of which the tag must have one. None means that the tag need only be there.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	// +optional
	Values []string `json:"values,omitempty"`
}

// VirtualMachineSelector selects virtual machines. VpcMatch, VMMatch and TagMatch narrow one
// another; at least one of them is set.
// +kubebuilder:validation:XValidation:rule="has(self.vpcMatch) || (has(self.vmMatch) && size(self.vmMatch) > 0) || (has(self.tagMatch) && size(self.tagMatch) > 0)",message="one of vpcMatch, vmMatch and tagMatch must be set"
type VirtualMachineSelector struct {
	// VpcMatch selects the virtual machines of one VPC (VNET on Azure).
	// +optional
	VpcMatch *EntityMatch `json:"vpcMatch,omitempty"`
	// VMMatch selects the virtual machines that any of the entries matches. None means all.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	VMMatch []EntityMatch `json:"vmMatch,omitempty"`
	// TagMatch selects the virtual machines that all of the entries match. None means all.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=key
	// +optional
	TagMatch []TagMatch `json:"tagMatch,omitempty"`
	// Agented says that the agent in the virtual machine is to enforce the policies. The cloud goes
	// on guarding it until the agent has proven that it does.
	// +optional
	Agented bool `json:"agented,omitempty"`
}

// CloudEntitySelectorSpec says which virtual machines, native services and network interfaces of an
// account to import into the namespace of the selector.
// +kubebuilder:validation:XValidation:rule="has(self.vmSelector) || (has(self.nativeSelector) && size(self.nativeSelector) > 0) || (has(self.interfaceSelector) && size(self.interfaceSelector) > 0)",message="one of vmSelector, nativeSelector and interfaceSelector must be set",reason=FieldValueRequired,fieldPath=".vmSelector"
type CloudEntitySelectorSpec struct {
	// AccountName is the name of the CloudProviderAccount.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="accountName is immutable"
	AccountName string `json:"accountName"`
	// AccountNamespace is the namespace of the CloudProviderAccount.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="accountNamespace is immutable"
	AccountNamespace string `json:"accountNamespace"`
	// VMSelector lists what to import; a virtual machine is imported if any entry selects it.
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(a, !has(a.vpcMatch) || !has(a.vpcMatch.matchID) || size(a.vpcMatch.matchID) == 0 || has(a.vmMatch) || has(a.tagMatch) || self.exists_one(b, has(b.vpcMatch) && has(b.vpcMatch.matchID) && b.vpcMatch.matchID == a.vpcMatch.matchID && !has(b.vmMatch) && !has(b.tagMatch)))",message="vmSelector must not select the same whole VPC twice"
	// +listType=atomic
	// +optional
	VMSelector []VirtualMachineSelector `json:"vmSelector,omitempty"`
	// NativeSelector lists which native services to import: databases, load balancers, endpoints;
	// one is imported if any entry selects it. While no selector of an account has any, the cloud
	// is asked nothing about them.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	NativeSelector []NativeServiceSelector `json:"nativeSelector,omitempty"`
	// InterfaceSelector lists which network interfaces to import as entities of their own; one is
	// imported if any entry selects it. It asks the cloud nothing beside what is read for virtual
	// machines.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	InterfaceSelector []NetworkInterfaceSelector `json:"interfaceSelector,omitempty"`
	// Mode says what may be done to the virtual machines in the cloud. Empty means the mode of the
	// account.
	// +optional
	Mode EnforcementMode `json:"mode,omitempty"`
}

// CloudEntitySelectorStatus says what the selector found.
type CloudEntitySelectorStatus struct {
	// Error is why the selector has no effect; empty when it has.
	// +optional
	Error string `json:"error,omitempty"`
	// Conditions: Ready, Matched, Planned if virtual machines are in mode plan, and Heeded if its
	// mode or break-glass is not.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// MatchedVMs is the number of virtual machines that the selector selects; absent until the
	// account was read.
	// +optional
	MatchedVMs *int32 `json:"matchedVMs,omitempty"`
	// MatchedServices is the number of native services that the selector selects; absent while it
	// asks for none, and until the account was read.
	// +optional
	MatchedServices *int32 `json:"matchedServices,omitempty"`
	// MatchedInterfaces is the number of network interfaces that the selector selects; absent while
	// it asks for none, and until the account was read.
	// +optional
	MatchedInterfaces *int32 `json:"matchedInterfaces,omitempty"`
	// GuardedVMs is the number of virtual machines imported by the selector that hold security
	// groups of ours; absent before that is known.
	// +optional
	GuardedVMs *int32 `json:"guardedVMs,omitempty"`
	// DeletionPolicy is that of the account: with Protect the selector cannot be deleted while
	// GuardedVMs is not 0.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// CloudEntitySelector selects the virtual machines, native services and network interfaces of an
// account that are imported into its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ces,scope=Namespaced
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.spec.accountName`
// +kubebuilder:printcolumn:name="Account-Namespace",type=string,JSONPath=`.spec.accountNamespace`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="VMs",type=integer,JSONPath=`.status.matchedVMs`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Break-Glass",type=string,JSONPath=`.status.conditions[?(@.type=="BreakGlass")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CloudEntitySelector struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CloudEntitySelectorSpec   `json:"spec"`
	Status CloudEntitySelectorStatus `json:"status,omitempty"`
}

// CloudEntitySelectorList is a list of CloudEntitySelector.
// +kubebuilder:object:root=true
type CloudEntitySelectorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloudEntitySelector `json:"items"`
}
