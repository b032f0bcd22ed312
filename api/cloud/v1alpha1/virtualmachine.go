package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VMState is what a virtual machine is doing. Clouds may pass on states of their own beside the
// named ones.
type VMState string

// The states that both clouds have.
const (
	VMStateRunning      VMState = "running"
	VMStateStopped      VMState = "stopped"
	VMStateStopping     VMState = "stopping"
	VMStateShuttingDown VMState = "shutting down"
	VMStateStarting     VMState = "starting"
	VMStateUnknown      VMState = "unknown"
)

// AddressType says from where an address can be reached.
type AddressType string

// The address types.
const (
	AddressTypeInternalIP AddressType = "InternalIP"
	AddressTypeExternalIP AddressType = "ExternalIP"
)

// IPAddress is an address of a network interface.
type IPAddress struct {
	// AddressType says from where Address can be reached.
	AddressType AddressType `json:"addressType"`
	// Address in text form, IPv4 or IPv6.
	Address string `json:"address"`
}

// AttachedInterface is a network interface of a virtual machine or a native service, as the status
// of that shows it.
type AttachedInterface struct {
	// Name is the cloud id of the interface.
	Name string `json:"name,omitempty"`
	// MAC is the hardware address.
	MAC string `json:"mac,omitempty"`
	// IPs are the addresses, private and public.
	// +listType=atomic
	IPs []IPAddress `json:"ips,omitempty"`
	// SecurityGroupIds are the security groups attached to the interface now.
	// +listType=atomic
	SecurityGroupIds []string `json:"securityGroupIds,omitempty"`
	// FormerSecurityGroupIds are the security groups that the interface had when Nephele took it
	// over, and gets back when it is released. Empty while the interface is not taken over.
	// +listType=atomic
	FormerSecurityGroupIds []string `json:"formerSecurityGroupIds,omitempty"`
	// Groups are the application security groups of the interface (Azure).
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
}

// UnimportedTag is a cloud tag that did not become a label of the ExternalEntity.
type UnimportedTag struct {
	// Key of the tag.
	Key string `json:"key"`
	// Value of the tag.
	Value string `json:"value,omitempty"`
	// Reason says in words which rule for labels the tag breaks.
	Reason string `json:"reason"`
}

// PolicyPhase says how far a policy is realized on a virtual machine, service or interface.
// +kubebuilder:validation:Enum=Realized;Realizing;Failed;Suspended
type PolicyPhase string

// The phases of a policy on a virtual machine, service or interface.
const (
	PolicyPhaseRealized  PolicyPhase = "Realized"
	PolicyPhaseRealizing PolicyPhase = "Realizing"
	PolicyPhaseFailed    PolicyPhase = "Failed"
	// PolicyPhaseSuspended: its mode does not let policies be enforced on it.
	PolicyPhaseSuspended PolicyPhase = "Suspended"
)

// AppliedPolicy says how far one policy is realized on the virtual machine, native service or
// network interface that shows it.
type AppliedPolicy struct {
	// Name of the policy.
	Name string `json:"name"`
	// Namespace of the policy; empty for a cluster-wide one.
	Namespace string `json:"namespace,omitempty"`
	// Kind says what the policy is, in the words of the computed API: AntreaNetworkPolicy,
	// AntreaClusterNetworkPolicy or K8sNetworkPolicy.
	Kind string `json:"kind"`
	// UID of the policy.
	UID types.UID `json:"uid"`
	// Generation of the policy that Phase is about.
	Generation int64 `json:"generation,omitempty"`
	// Phase says how far the policy is realized.
	Phase PolicyPhase `json:"phase"`
	// Message says why it is not realized, with the numbers, or what differs from the letter of the
	// policy when it is.
	Message string `json:"message,omitempty"`
}

// VirtualMachineSpec is what a user may add to what the cloud tells.
type VirtualMachineSpec struct {
	// Tags become labels beside the labels of the cloud's tags: nephele.io/user-tag-KEY, or, if the
	// account says userTags: Merge, nephe.antrea.io/tag-KEY in place of what the cloud says.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
}

// VMAgent is what is known of the agent in a virtual machine.
type VMAgent struct {
	// Name of its AntreaAgentInfo, which says more.
	Name string `json:"name"`
	// Version of the agent.
	// +optional
	Version string `json:"version,omitempty"`
	// Kernel is the release of the kernel that it writes rules to.
	// +optional
	Kernel string `json:"kernel,omitempty"`
	// Health is True while the agent says that it is well, and Unknown if it has said nothing for
	// three minutes.
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Health metav1.ConditionStatus `json:"health"`
	// Message says why it is not well.
	// +optional
	Message string `json:"message,omitempty"`
	// LastHeard is when it said something last. While it is well, this may be five minutes old.
	// +optional
	LastHeard *metav1.Time `json:"lastHeard,omitempty"`
	// Policies is how many policies it has received.
	// +optional
	Policies int32 `json:"policies,omitempty"`
}

// VirtualMachineStatus is what is known of the virtual machine.
type VirtualMachineStatus struct {
	// Provider is the cloud.
	Provider CloudProvider `json:"provider,omitempty"`
	// Tags of the virtual machine in the cloud.
	Tags map[string]string `json:"tags,omitempty"`
	// NetworkInterfaces, the primary one first.
	// +listType=atomic
	NetworkInterfaces []AttachedInterface `json:"networkInterfaces,omitempty"`
	// Addresses has the addresses of all interfaces in short, for people: the private ones first,
	// of many the first and how many more there are.
	// +optional
	Addresses string `json:"addresses,omitempty"`
	// State is what the virtual machine is doing.
	State VMState `json:"state,omitempty"`
	// Region it runs in.
	Region string `json:"region,omitempty"`
	// Agented says that a selector hands the virtual machine to the agent in it. Whether that
	// enforces the policies says the condition Agented.
	// +optional
	Agented bool `json:"agented"`
	// Agent is the one in the virtual machine, if it is agented and has told of itself.
	// +optional
	Agent *VMAgent `json:"agent,omitempty"`
	// CloudId is the id of the virtual machine in the cloud.
	CloudId string `json:"cloudId,omitempty"`
	// CloudUid is its vmId (Azure), which what Azure attests about it names. No other ever has it.
	// +optional
	CloudUid string `json:"cloudUid,omitempty"`
	// Created is when it was made (Azure).
	// +optional
	Created *metav1.Time `json:"created,omitempty"`
	// CloudName is its name there.
	CloudName string `json:"cloudName,omitempty"`
	// CloudVpcId is the id of its VPC.
	CloudVpcId string `json:"cloudVpcId,omitempty"`
	// CloudVpcName is the name of its VPC.
	CloudVpcName string `json:"cloudVpcName,omitempty"`

	// Mode is what may be done to the virtual machine, all selectors and annotations considered;
	// empty means enforce.
	// +kubebuilder:validation:Enum=enforce;plan;released;break-glass
	// +optional
	Mode string `json:"mode,omitempty"`
	// ModeReason says which object decides the mode, and for break-glass why.
	// +optional
	ModeReason string `json:"modeReason,omitempty"`
	// ModeUntil is when break-glass ends by itself; absent if somebody has to end it.
	// +optional
	ModeUntil *metav1.Time `json:"modeUntil,omitempty"`

	// Conditions: Observed, Realized; in mode plan, Planned; in mode break-glass, BreakGlass;
	// Heeded if an annotation for break-glass is not; Agented if it is to be handed to its agent;
	// Obstructed while the subnet's filter denies what policies allow.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastSeen is when the cloud was read for what this status says. It is not renewed while
	// nothing changes; how current the knowledge is stands in the status of the account, per
	// region.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// UnimportedTags are the tags that are no legal label, sorted by key.
	// +listType=atomic
	// +optional
	UnimportedTags []UnimportedTag `json:"unimportedTags,omitempty"`
	// Policies that apply to the virtual machine, sorted by kind, namespace and name.
	// +listType=map
	// +listMapKey=uid
	// +optional
	Policies []AppliedPolicy `json:"policies,omitempty"`
	// PolicySummary is "realized/all" of Policies, for example 2/3; empty when no policy applies.
	// +optional
	PolicySummary string `json:"policySummary,omitempty"`
}

// VirtualMachine is an imported virtual machine.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vm,scope=Namespaced
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.status.cloudName`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.status.addresses`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.status.policySummary`
// +kubebuilder:printcolumn:name="Cloud-Provider",type=string,priority=1,JSONPath=`.status.provider`
// +kubebuilder:printcolumn:name="Region",type=string,priority=1,JSONPath=`.status.region`
// +kubebuilder:printcolumn:name="Virtual-Private-Cloud",type=string,priority=1,JSONPath=`.status.cloudVpcId`
// +kubebuilder:printcolumn:name="Agented",type=boolean,priority=1,JSONPath=`.status.agented`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.status.cloudId`
// +kubebuilder:selectablefield:JSONPath=`.status.cloudVpcId`
// +kubebuilder:selectablefield:JSONPath=`.status.region`
type VirtualMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualMachineSpec   `json:"spec,omitempty"`
	Status VirtualMachineStatus `json:"status,omitempty"`
}

// VirtualMachineList is a list of VirtualMachine.
// +kubebuilder:object:root=true
type VirtualMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualMachine `json:"items"`
}
