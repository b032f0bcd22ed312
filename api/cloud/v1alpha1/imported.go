package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImportedStatus is what a native service and a network interface both tell: what the cloud knows
// of it, whether policies may apply to it, and which do.
type ImportedStatus struct {
	// Provider is the cloud.
	Provider CloudProvider `json:"provider,omitempty"`
	// CloudId is its id in the cloud. Of a native service of AWS that is the ARN, or the id of its
	// interface where nothing else is known.
	CloudId string `json:"cloudId,omitempty"`
	// CloudName is its name there; of an interface on AWS the value of its tag Name.
	CloudName string `json:"cloudName,omitempty"`
	// Region it is in.
	Region string `json:"region,omitempty"`
	// CloudVpcId is the id of its VPC.
	CloudVpcId string `json:"cloudVpcId,omitempty"`
	// CloudVpcName is the name of its VPC.
	CloudVpcName string `json:"cloudVpcName,omitempty"`
	// Tags that it has in the cloud.
	Tags map[string]string `json:"tags,omitempty"`
	// DNSName is the name that clients use, or the private one that the cloud gave an interface.
	// +optional
	DNSName string `json:"dnsName,omitempty"`
	// Addresses are all of its addresses in short, for people.
	// +optional
	Addresses string `json:"addresses,omitempty"`
	// SecurityGroupIds are its security groups.
	// +listType=atomic
	// +optional
	SecurityGroupIds []string `json:"securityGroupIds,omitempty"`
	// FormerSecurityGroupIds are those that it had of its own, while policies guard it by others.
	// +listType=atomic
	// +optional
	FormerSecurityGroupIds []string `json:"formerSecurityGroupIds,omitempty"`
	// Mode is what may be done to it, all selectors and annotations considered; empty if policies
	// are enforced on it.
	// +optional
	Mode string `json:"mode,omitempty"`
	// ModeReason says which object decides the mode, and for break-glass why.
	// +optional
	ModeReason string `json:"modeReason,omitempty"`
	// ModeUntil is when break-glass ends by itself; absent if somebody has to end it.
	// +optional
	ModeUntil *metav1.Time `json:"modeUntil,omitempty"`
	// Settable says that policies may apply to it: its security groups can be set, and it belongs
	// to nothing else that policies apply to.
	// +optional
	Settable bool `json:"settable"`
	// NotSettable says why policies cannot apply; empty if they can.
	// +optional
	NotSettable string `json:"notSettable,omitempty"`
	// Conditions: Observed; of a native service Addressed, whether its addresses are known;
	// Realized, once a policy applies; in mode plan, Planned; in mode break-glass, BreakGlass;
	// Heeded if an annotation for break-glass is not;
	// RecordsSigned if the record of its own groups is not believed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// UnimportedTags are the tags that are no legal label, sorted by key.
	// +listType=atomic
	// +optional
	UnimportedTags []UnimportedTag `json:"unimportedTags,omitempty"`
	// Policies that apply to it, sorted by kind, namespace and name.
	// +listType=map
	// +listMapKey=uid
	// +optional
	Policies []AppliedPolicy `json:"policies,omitempty"`
	// PolicySummary is "realized/all" of Policies, for example 2/3; empty when no policy applies.
	// +optional
	PolicySummary string `json:"policySummary,omitempty"`
}
