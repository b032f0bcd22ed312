package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkPolicyPhase says how far a policy is realized.
// +kubebuilder:validation:Enum=Pending;Realizing;Realized;Failed
type NetworkPolicyPhase string

// The phases.
const (
	NetworkPolicyPending   NetworkPolicyPhase = "Pending"
	NetworkPolicyRealizing NetworkPolicyPhase = "Realizing"
	NetworkPolicyRealized  NetworkPolicyPhase = "Realized"
	NetworkPolicyFailed    NetworkPolicyPhase = "Failed"
)

// NetworkPolicyConditionType names a condition of a policy.
type NetworkPolicyConditionType string

// The condition types and their reasons.
const (
	NetworkPolicyConditionRealizable         NetworkPolicyConditionType = "Realizable"
	NetworkPolicyConditionRealizationFailure NetworkPolicyConditionType = "RealizationFailure"

	// ReasonAppliedToUnsupportedGroup is the reason of Realizable False.
	ReasonAppliedToUnsupportedGroup = "NetworkPolicyAppliedToUnsupportedGroup"
	// ReasonRealizationFailedOnNode is the reason of RealizationFailure True.
	ReasonRealizationFailedOnNode = "NetworkPolicyRealizationFailedOnNode"
)

// NetworkPolicyCondition is one condition of a policy.
type NetworkPolicyCondition struct {
	Type   NetworkPolicyConditionType `json:"type"`
	Status metav1.ConditionStatus     `json:"status"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// NetworkPolicyStatus says how far a policy is realized.
type NetworkPolicyStatus struct {
	// +optional
	Phase NetworkPolicyPhase `json:"phase,omitempty"`
	// ObservedGeneration of the policy that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// CurrentNodesRealized is the number of enforcers that have realized the policy.
	CurrentNodesRealized int32 `json:"currentNodesRealized"`
	// DesiredNodesRealized is the number of enforcers that should.
	DesiredNodesRealized int32 `json:"desiredNodesRealized"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []NetworkPolicyCondition `json:"conditions,omitempty"`
}

// NetworkPolicySpec is the content of a NetworkPolicy and of a ClusterNetworkPolicy.
type NetworkPolicySpec struct {
	// Tier is the name of the Tier that the policy is evaluated in; empty means application.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Tier string `json:"tier,omitempty"`
	// Priority orders the policies of a tier; the lower is evaluated first.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Priority float64 `json:"priority"`
	// AppliedTo says what the policy is applied to, unless all rules say it themselves.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	AppliedTo []AppliedTo `json:"appliedTo,omitempty"`
	// Ingress rules, the first match decides.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules, the first match decides.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Egress []Rule `json:"egress,omitempty"`
}

// NetworkPolicy is an Antrea policy for the workloads of its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=networkpolicies,shortName=annp;anp,scope=Namespaced
// +kubebuilder:printcolumn:name="Tier",type=string,JSONPath=`.spec.tier`,description="The Tier to which this Antrea NetworkPolicy belongs to."
// +kubebuilder:printcolumn:name="Priority",type=number,format=float,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Desired Nodes",type=number,format=int32,JSONPath=`.status.desiredNodesRealized`
// +kubebuilder:printcolumn:name="Current Nodes",type=number,format=int32,JSONPath=`.status.currentNodesRealized`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkPolicySpec   `json:"spec"`
	Status NetworkPolicyStatus `json:"status,omitempty"`
}

// NetworkPolicyList is a list of NetworkPolicy.
// +kubebuilder:object:root=true
type NetworkPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NetworkPolicy `json:"items"`
}

// ClusterNetworkPolicy is an Antrea policy for the workloads of all namespaces.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusternetworkpolicies,shortName=acnp,scope=Cluster
// +kubebuilder:printcolumn:name="Tier",type=string,JSONPath=`.spec.tier`
// +kubebuilder:printcolumn:name="Priority",type=number,format=float,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Desired Nodes",type=number,format=int32,JSONPath=`.status.desiredNodesRealized`
// +kubebuilder:printcolumn:name="Current Nodes",type=number,format=int32,JSONPath=`.status.currentNodesRealized`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkPolicySpec   `json:"spec"`
	Status NetworkPolicyStatus `json:"status,omitempty"`
}

// ClusterNetworkPolicyList is a list of ClusterNetworkPolicy.
// +kubebuilder:object:root=true
type ClusterNetworkPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterNetworkPolicy `json:"items"`
}
