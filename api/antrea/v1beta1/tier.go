package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the tiers that always exist. DefaultTier is that of a policy that names none.
const (
	TierEmergency   = "emergency"
	TierSecurityOps = "securityops"
	TierNetworkOps  = "networkops"
	TierPlatform    = "platform"
	TierApplication = "application"
	TierBaseline    = "baseline"

	DefaultTier = TierApplication
)

// TiersWithGrant are the tiers that come before the teams' tiers. If Nephele creates them, the
// author of a policy in one needs the verb "use" on it.
func TiersWithGrant() []string { return []string{TierEmergency, TierSecurityOps, TierNetworkOps} }

// Priorities of the tiers that always exist.
const (
	TierPriorityEmergency   int32 = 50
	TierPrioritySecurityOps int32 = 100
	TierPriorityNetworkOps  int32 = 150
	TierPriorityPlatform    int32 = 200
	TierPriorityApplication int32 = 250
	TierPriorityBaseline    int32 = 253
)

// TierSpec is the content of a Tier.
type TierSpec struct {
	// Priority orders the tiers; the lower is evaluated first.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Priority int32 `json:"priority"`
	// Description in words.
	// +optional
	Description string `json:"description,omitempty"`
}

// Tier is a level of evaluation that policies are put in.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=tr,scope=Cluster
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tier struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TierSpec `json:"spec"`
}

// TierList is a list of Tier.
// +kubebuilder:object:root=true
type TierList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Tier `json:"items"`
}
