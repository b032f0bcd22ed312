package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupConditionType names a condition of a group.
type GroupConditionType string

// GroupMembersComputed is True once the members of the group are known.
const GroupMembersComputed GroupConditionType = "GroupMembersComputed"

// ReasonChildGroupsNestingExceeded is the reason of GroupMembersComputed False for a group whose
// child has children.
const ReasonChildGroupsNestingExceeded = "ChildGroupsNestingExceeded"

// GroupCondition is one condition of a group.
type GroupCondition struct {
	// Type of the condition.
	Type GroupConditionType `json:"type"`
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

// GroupStatus says whether the members of the group are known.
type GroupStatus struct {
	// Conditions: GroupMembersComputed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []GroupCondition `json:"conditions,omitempty"`
}

// GroupSpec is the content of a Group and of a ClusterGroup. One field is set, but for
// NamespaceSelector, which may go with PodSelector or ExternalEntitySelector.
// +kubebuilder:validation:XValidation:rule="[has(self.podSelector), has(self.externalEntitySelector), has(self.nodeSelector), (has(self.ipBlocks) && size(self.ipBlocks) > 0), has(self.serviceReference), (has(self.childGroups) && size(self.childGroups) > 0)].filter(f, f).size() <= 1",message="at most one of podSelector, externalEntitySelector, nodeSelector, ipBlocks, serviceReference and childGroups may be set"
// +kubebuilder:validation:XValidation:rule="!has(self.namespaceSelector) || !(has(self.nodeSelector) || (has(self.ipBlocks) && size(self.ipBlocks) > 0) || has(self.serviceReference) || (has(self.childGroups) && size(self.childGroups) > 0))",message="namespaceSelector may be combined only with podSelector or externalEntitySelector",fieldPath=".namespaceSelector"
type GroupSpec struct {
	// PodSelector selects Pods by label.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector selects namespaces by label. Alone it selects all Pods in them.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ExternalEntitySelector selects external entities by label.
	// +optional
	ExternalEntitySelector *metav1.LabelSelector `json:"externalEntitySelector,omitempty"`
	// NodeSelector selects Nodes by label (ClusterGroup only).
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// IPBlocks are sets of addresses.
	// +kubebuilder:validation:MaxItems=10000
	// +listType=atomic
	// +optional
	IPBlocks []IPBlock `json:"ipBlocks,omitempty"`
	// ServiceReference stands for the Pods behind a Service.
	// +optional
	ServiceReference *NamespacedName `json:"serviceReference,omitempty"`
	// ChildGroups are the names of groups whose members are members of this one. A child has no
	// children.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	ChildGroups []string `json:"childGroups,omitempty"`
}

// ClusterGroup names a set of workloads or addresses for use in ClusterNetworkPolicies.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cg,scope=Cluster
// +kubebuilder:validation:XValidation:rule="!has(self.spec.childGroups) || !self.spec.childGroups.exists(c, c == self.metadata.name)",message="a group must not be its own child",fieldPath=".spec.childGroups"
type ClusterGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GroupSpec   `json:"spec"`
	Status GroupStatus `json:"status,omitempty"`
}

// ClusterGroupList is a list of ClusterGroup.
// +kubebuilder:object:root=true
type ClusterGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterGroup `json:"items"`
}

// Group names a set of workloads or addresses for use in the NetworkPolicies of its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=grp,scope=Namespaced
// +kubebuilder:validation:XValidation:rule="!has(self.spec.childGroups) || !self.spec.childGroups.exists(c, c == self.metadata.name)",message="a group must not be its own child",fieldPath=".spec.childGroups"
type Group struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="!has(self.nodeSelector)",message="a Group must not have nodeSelector",fieldPath=".nodeSelector"
	Spec   GroupSpec   `json:"spec"`
	Status GroupStatus `json:"status,omitempty"`
}

// GroupList is a list of Group.
// +kubebuilder:object:root=true
type GroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Group `json:"items"`
}
