package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MembershipName is the name of the one Membership that a cluster can have.
const MembershipName = "hub"

// The marks of objects that a member has from its hub.
const (
	// LabelFromHub, with the value true, is on every object that a member has from its hub.
	LabelFromHub = GroupName + "/from-hub"
	// AnnotationSource on such an object is the uid of its original in the hub.
	AnnotationSource = GroupName + "/source"
	// AnnotationSourceGeneration on such an object is the generation of its original in the hub.
	AnnotationSourceGeneration = GroupName + "/source-generation"
	// CopyPrefix begins the names of policies and groups from the hub.
	CopyPrefix = "hub-"
)

// The conditions of a Membership.
const (
	// MembershipJoined: the hub has given a certificate, which is valid.
	MembershipJoined = "Joined"
	// MembershipConnected: the hub is heard of.
	MembershipConnected = "Connected"
	// MembershipAccepted: all policies of the hub are taken. False names what is not.
	MembershipAccepted = "PoliciesAccepted"
	// MembershipBelieved: the hub believes all that this cluster tells. False names what it does
	// not.
	MembershipBelieved = "Believed"
	// MembershipNamed: what the cluster calls itself by the About API is its name in the set. It is
	// there where the cluster calls itself anything.
	MembershipNamed = "NameAgrees"
)

// The reasons of these conditions, besides the reasons of Clusters.
const (
	// ReasonRefused (Membership): the hub refuses the connection or a claim; the message says why.
	ReasonRefused = "Refused"
	// ReasonNotReached (Membership): no connection to the hub can be made.
	ReasonNotReached = "NotReached"
	// ReasonNotAccepted (Membership): spec.accept does not allow a policy of the hub.
	ReasonNotAccepted = "NotAccepted"
	// ReasonNoCredentials (Membership): there is no certificate for the hub.
	ReasonNoCredentials = "NoCredentials"
	// ReasonContradicted: the About API says otherwise.
	ReasonContradicted = "Contradicted"
)

// Acceptance bounds what the hub may do in this cluster: whatever its policies say, more is not
// taken.
type Acceptance struct {
	// ClusterWide takes policies that are in no Namespace; absent means yes.
	// +optional
	ClusterWide *bool `json:"clusterWide,omitempty"`
	// Namespaces are those in which policies are taken: names, or beginnings of names followed by
	// "*". Absent: all.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9-]*\*?$`
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// Tiers are those in which policies are taken. Absent: all.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Tiers []string `json:"tiers,omitempty"`
	// Questions answers what the hub asks about single flows, which tells which rule of this
	// cluster decides; absent means yes.
	// +optional
	Questions *bool `json:"questions,omitempty"`
	// Accounts leaves regions of cloud accounts alone that the hub says are another member's;
	// absent means yes.
	// +optional
	Accounts *bool `json:"accounts,omitempty"`
}

// TakenAccount is a region of a cloud account that another member works on.
type TakenAccount struct {
	// Region is PROVIDER/ACCOUNT/REGION.
	Region string `json:"region"`
	// By is the cluster that works on it.
	By string `json:"by"`
}

// MembershipSpec says which hub this cluster belongs to, and what it may do here.
type MembershipSpec struct {
	// Hub are the addresses of the hub, HOST:PORT. They are tried in turn.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=260
	// +kubebuilder:validation:items:Pattern=`^[^/@\s]+:[0-9]{1,5}$`
	Hub []string `json:"hub"`
	// Cluster is the name of this cluster in the set.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Cluster string `json:"cluster"`
	// Accept bounds what the hub may do here.
	// +optional
	Accept Acceptance `json:"accept,omitempty"`
	// StaleAfter is how long workloads of other clusters count in peers of rules that allow while
	// the hub is silent; absent: forever. In other rules they always count.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="want 1m or more"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// MembershipStatus is how this cluster stands with its hub.
type MembershipStatus struct {
	// Authority is the SHA-256 of the hub's authority, by which the hub is known.
	// +optional
	Authority string `json:"authority,omitempty"`
	// CertificateEnds is when the present certificate ends; it is renewed long before.
	// +optional
	CertificateEnds *metav1.Time `json:"certificateEnds,omitempty"`
	// Labels are those that this cluster has in the hub.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// LastHeard is about when something came from the hub last.
	// +optional
	LastHeard *metav1.Time `json:"lastHeard,omitempty"`
	// Expired says that workloads of other clusters in peers do not count in rules that allow,
	// because of staleAfter.
	// +optional
	Expired bool `json:"expired,omitempty"`
	// TakenAccounts are regions of cloud accounts of this cluster that another member works on:
	// nothing is changed there by this cluster.
	// +listType=map
	// +listMapKey=region
	// +optional
	TakenAccounts []TakenAccount `json:"takenAccounts,omitempty"`
	// Policies is how many policies of the hub are in this cluster.
	// +optional
	Policies int32 `json:"policies,omitempty"`
	// Conditions: Joined, Connected, PoliciesAccepted, Believed, NameAgrees.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Membership says that this cluster is a member of a set, and of which.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'hub'",message="a cluster has one hub: the name of its Membership is hub"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Joined",type=string,JSONPath=`.status.conditions[?(@.type=="Joined")].status`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Policies",type=integer,JSONPath=`.status.policies`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Membership struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MembershipSpec   `json:"spec"`
	Status MembershipStatus `json:"status,omitempty"`
}

// RemoteGroup holds the workloads of other clusters in a peer of a policy, as the member received
// them from its hub, so that a member that restarts without its hub still has them. Only the member
// may write it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.members`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RemoteGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Members is how many there are.
	// +optional
	Members int32 `json:"members"`
	// Content is JSON, gzip, base64 in the standard alphabet: the members by cluster.
	// +kubebuilder:validation:MaxLength=1048576
	// +optional
	Content string `json:"content,omitempty"`
}

// RemoteGroupList is a list of RemoteGroups.
// +kubebuilder:object:root=true
type RemoteGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RemoteGroup `json:"items"`
}

// MembershipList is a list of Memberships.
// +kubebuilder:object:root=true
type MembershipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Membership `json:"items"`
}
