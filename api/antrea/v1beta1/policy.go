package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkPolicyPhase says how far a policy is realized.
// +kubebuilder:validation:Enum=Pending;Realizing;Realized;Idle;Planned;Suspended;Staged;NotEnforced;Failed
type NetworkPolicyPhase string

// The phases.
const (
	NetworkPolicyPending   NetworkPolicyPhase = "Pending"
	NetworkPolicyRealizing NetworkPolicyPhase = "Realizing"
	NetworkPolicyRealized  NetworkPolicyPhase = "Realized"
	// NetworkPolicyIdle: it applies to nothing that an enforcer is responsible for, which Antrea
	// calls Realized.
	NetworkPolicyIdle NetworkPolicyPhase = "Idle"
	// NetworkPolicyPlanned: it is in force or only planned for everywhere, and somewhere it is only
	// planned for.
	NetworkPolicyPlanned NetworkPolicyPhase = "Planned"
	// NetworkPolicySuspended: nothing but modes, releases and the brake keeps it from being in
	// force.
	NetworkPolicySuspended NetworkPolicyPhase = "Suspended"
	// NetworkPolicyStaged: its author does not want it enforced yet.
	NetworkPolicyStaged NetworkPolicyPhase = "Staged"
	// NetworkPolicyNotEnforced: a cloud account enforced it, and nothing is left that one would.
	NetworkPolicyNotEnforced NetworkPolicyPhase = "NotEnforced"
	NetworkPolicyFailed      NetworkPolicyPhase = "Failed"
)

// NetworkPolicyConditionType names a condition of a policy.
type NetworkPolicyConditionType string

// The condition types and their reasons.
const (
	NetworkPolicyConditionRealizable         NetworkPolicyConditionType = "Realizable"
	NetworkPolicyConditionRealizationFailure NetworkPolicyConditionType = "RealizationFailure"
	// NetworkPolicyConditionReceived is False while enforcers receive nothing from the server that
	// computes the policy; else it is absent.
	NetworkPolicyConditionReceived NetworkPolicyConditionType = "Received"

	// NetworkPolicyConditionConfirmed is False while an enforcer that has realized the policy is
	// silent; there is none otherwise. Its rules may be in force there as they were.
	NetworkPolicyConditionConfirmed NetworkPolicyConditionType = "Confirmed"

	// NetworkPolicyConditionTrafficAgrees is False while traffic is seen that is not as the policy
	// says; there is none otherwise. Its reason is how it differs.
	NetworkPolicyConditionTrafficAgrees NetworkPolicyConditionType = "TrafficAgrees"

	// NetworkPolicyConditionPeersKnown is False while something is to be said of what peers with
	// the scope ClusterSet mean in other clusters; there is none otherwise.
	NetworkPolicyConditionPeersKnown NetworkPolicyConditionType = "PeersKnown"

	// ReasonEnforcerSilent is the reason of Confirmed False.
	ReasonEnforcerSilent = "EnforcerSilent"
	// ReasonOtherClusters is the reason of PeersKnown False.
	ReasonOtherClusters = "OtherClusters"
	// ReasonAppliedToUnsupportedGroup is the reason of Realizable False.
	ReasonAppliedToUnsupportedGroup = "NetworkPolicyAppliedToUnsupportedGroup"
	// ReasonRealizationFailedOnNode is the reason of RealizationFailure True.
	ReasonRealizationFailedOnNode = "NetworkPolicyRealizationFailedOnNode"
)

// NetworkPolicyCondition is one condition of a policy.
type NetworkPolicyCondition struct {
	// Type of the condition.
	Type NetworkPolicyConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word for machines.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is the reason in words.
	// +optional
	Message string `json:"message,omitempty"`
}

// ClusterRealization is how far a policy is realized in one cluster of a set.
type ClusterRealization struct {
	// Name is that of the Cluster.
	Name string `json:"name"`
	// Phase is that of the policy there; Unknown while the cluster has not told it.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Phase string `json:"phase,omitempty"`
	// ObservedGeneration is the generation of this object that the phase is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// CurrentNodesRealized is the number of enforcers there that have realized the policy,
	// DesiredNodesRealized of those that should.
	// +optional
	CurrentNodesRealized int32 `json:"currentNodesRealized,omitempty"`
	// +optional
	DesiredNodesRealized int32 `json:"desiredNodesRealized,omitempty"`
	// Reason says in one word why the policy is not there, or not known to be.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// PhaseUnknown is the phase of a policy in a cluster that has not told it, or is not heard of.
const PhaseUnknown = "Unknown"

// NetworkPolicyStatus says how far a policy is realized.
type NetworkPolicyStatus struct {
	// Phase sums up the reports of the enforcers.
	// +optional
	Phase NetworkPolicyPhase `json:"phase,omitempty"`
	// ObservedGeneration of the policy that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// CurrentNodesRealized is the number of enforcers that have realized the policy.
	// +optional
	CurrentNodesRealized int32 `json:"currentNodesRealized"`
	// DesiredNodesRealized is the number of enforcers that should.
	// +optional
	DesiredNodesRealized int32 `json:"desiredNodesRealized"`
	// VMs is on how many of the workloads that the policy applies to it is in force, for example
	// 2/3: virtual machines, native services and interfaces; empty while nobody has counted them.
	// +optional
	VMs string `json:"vms,omitempty"`
	// Message says in short what keeps the policy from being in force, or what is to be known where
	// it is; the conditions say all.
	// +optional
	Message string `json:"message,omitempty"`
	// Clusters are those that the policy is for, where it is for clusters of a set: then the
	// numbers are theirs, added up.
	// +listType=map
	// +listMapKey=name
	// +optional
	Clusters []ClusterRealization `json:"clusters,omitempty"`
	// Conditions: Realizable; RealizationFailure if any enforcer failed; Confirmed if one that
	// realized it is not heard of any more.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []NetworkPolicyCondition `json:"conditions,omitempty"`
}

// NetworkPolicySpec is the content of a NetworkPolicy and of a ClusterNetworkPolicy.
// +kubebuilder:validation:XValidation:rule="!(has(self.appliedTo) && size(self.appliedTo) > 0) || !((has(self.ingress) && self.ingress.exists(r, (has(r.appliedTo) && size(r.appliedTo) > 0))) || (has(self.egress) && self.egress.exists(r, (has(r.appliedTo) && size(r.appliedTo) > 0))))",message="appliedTo must not be set both in spec and in rules",fieldPath=".appliedTo"
// +kubebuilder:validation:XValidation:rule="(has(self.appliedTo) && size(self.appliedTo) > 0) || ((has(self.ingress) && size(self.ingress) > 0) || (has(self.egress) && size(self.egress) > 0)) && !((has(self.ingress) && self.ingress.exists(r, !(has(r.appliedTo) && size(r.appliedTo) > 0))) || (has(self.egress) && self.egress.exists(r, !(has(r.appliedTo) && size(r.appliedTo) > 0))))",message="appliedTo must be set in spec or in every rule",fieldPath=".appliedTo"
// +kubebuilder:validation:XValidation:rule="!has(self.tier) || !(self.tier in ['baseline', 'Baseline']) || !((has(self.ingress) && self.ingress.exists(r, r.action == 'Pass')) || (has(self.egress) && self.egress.exists(r, r.action == 'Pass')))",message="the action Pass must not be used in the tier baseline",fieldPath=".tier"
// +kubebuilder:validation:XValidation:rule="!(has(self.egress) && size(self.egress) > 0) || !(has(self.appliedTo) && size(self.appliedTo) > 0) || !self.appliedTo.exists(a, has(a.service))",message="service must not be used in spec.appliedTo when there are egress rules",fieldPath=".appliedTo"
// +kubebuilder:validation:XValidation:rule="!(has(self.appliedTo) && size(self.appliedTo) > 0) || !self.appliedTo.exists(a, has(a.service)) || !has(self.ingress) || self.ingress.all(r, !has(r.from) || r.from.all(p, has(p.ipBlock)))",message="rules applied to a service must have only ipBlock in from",fieldPath=".ingress"
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
	// +kubebuilder:validation:XValidation:rule="!self.exists(a, has(a.service)) || self.all(a, has(a.service))",message="service must not be mixed with other kinds of entries"
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	AppliedTo []AppliedTo `json:"appliedTo,omitempty"`
	// Ingress rules, the first match decides.
	// +kubebuilder:validation:XValidation:rule="self.all(r, !has(r.to) && !has(r.toServices))",message="an ingress rule must not have to or toServices"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !has(r.from) || r.from.all(p, !has(p.fqdn)))",message="fqdn must not be used in from"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !has(r.protocols) || r.protocols.all(p, !has(p.igmp) || !has(p.igmp.igmpType) || p.igmp.igmpType == 17))",message="igmpType of an ingress rule must be 17 (0x11)"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !(has(r.appliedTo) && size(r.appliedTo) > 0) || !r.appliedTo.exists(a, has(a.service)) || (r.appliedTo.all(a, has(a.service)) && (!has(r.from) || r.from.all(p, has(p.ipBlock)))))",message="a rule applied to a service must have only services in appliedTo and only ipBlock in from"
	// +kubebuilder:validation:MaxItems=512
	// +listType=atomic
	// +optional
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules, the first match decides.
	// +kubebuilder:validation:XValidation:rule="self.all(r, !has(r.from))",message="an egress rule must not have from"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !has(r.to) || r.to.all(p, !has(p.scope)))",message="scope must not be used in to"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !has(r.protocols) || r.protocols.all(p, !has(p.igmp) || !has(p.igmp.igmpType) || p.igmp.igmpType in [18, 22, 34]))",message="igmpType of an egress rule must be 18 (0x12), 22 (0x16) or 34 (0x22)"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !has(r.appliedTo) || !r.appliedTo.exists(a, has(a.service)))",message="an egress rule must not be applied to a service"
	// +kubebuilder:validation:MaxItems=512
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
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Workloads",type=string,JSONPath=`.status.vms`
// +kubebuilder:printcolumn:name="Desired Nodes",type=number,format=int32,priority=1,JSONPath=`.status.desiredNodesRealized`
// +kubebuilder:printcolumn:name="Current Nodes",type=number,format=int32,priority=1,JSONPath=`.status.currentNodesRealized`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type NetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="!has(self.appliedTo) || self.appliedTo.all(a, !has(a.namespaceSelector) && !has(a.serviceAccount) && !has(a.service) && !has(a.nodeSelector))",message="appliedTo of a NetworkPolicy must not have namespaceSelector, serviceAccount, service or nodeSelector",fieldPath=".appliedTo"
	// +kubebuilder:validation:XValidation:rule="!has(self.ingress) || self.ingress.all(r, !has(r.appliedTo) || r.appliedTo.all(a, !has(a.namespaceSelector) && !has(a.serviceAccount) && !has(a.service) && !has(a.nodeSelector)))",message="appliedTo of a NetworkPolicy must not have namespaceSelector, serviceAccount, service or nodeSelector",fieldPath=".ingress"
	// +kubebuilder:validation:XValidation:rule="!has(self.ingress) || self.ingress.all(r, !has(r.from) || r.from.all(p, !has(p.namespaces) && !has(p.serviceAccount)))",message="from of a NetworkPolicy must not have namespaces or serviceAccount",fieldPath=".ingress"
	// +kubebuilder:validation:XValidation:rule="!has(self.egress) || self.egress.all(r, !has(r.appliedTo) || r.appliedTo.all(a, !has(a.namespaceSelector) && !has(a.serviceAccount) && !has(a.service) && !has(a.nodeSelector)))",message="appliedTo of a NetworkPolicy must not have namespaceSelector, serviceAccount, service or nodeSelector",fieldPath=".egress"
	// +kubebuilder:validation:XValidation:rule="!has(self.egress) || self.egress.all(r, !has(r.to) || r.to.all(p, !has(p.namespaces) && !has(p.serviceAccount)))",message="to of a NetworkPolicy must not have namespaces or serviceAccount",fieldPath=".egress"
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
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Workloads",type=string,JSONPath=`.status.vms`
// +kubebuilder:printcolumn:name="Desired Nodes",type=number,format=int32,priority=1,JSONPath=`.status.desiredNodesRealized`
// +kubebuilder:printcolumn:name="Current Nodes",type=number,format=int32,priority=1,JSONPath=`.status.currentNodesRealized`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type ClusterNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="!has(self.egress) || self.egress.all(r, !has(r.toServices) || r.toServices.all(s, has(s.__namespace__) && size(s.__namespace__) > 0))",message="toServices of a ClusterNetworkPolicy must have a namespace",fieldPath=".egress"
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
