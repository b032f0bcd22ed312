package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AnnotationClusters on a policy of the hub says for which clusters it is, by a selector over
	// the labels of Clusters, as kubectl writes one with -l or as a LabelSelector in JSON. Without
	// it a policy is for the cluster that it is in.
	AnnotationClusters = "nephele.io/clusters"
	// LabelClusterName (Namespace, in the hub) names the cluster of the Namespace. The hub sets it
	// from the certificate of the member; no writer of Namespaces can.
	LabelClusterName = "clusterset.k8s.io/cluster-name"
	// ClusterLabelPrefix begins the labels of a Namespace that its cluster has in the hub: the
	// label env of a Cluster is the label set.nephele.io/env of its Namespaces.
	ClusterLabelPrefix = GroupName + "/"
)

// The conditions of a Cluster.
const (
	// ClusterConnected: the member is heard of.
	ClusterConnected = "Connected"
	// ClusterInSync: all that the member has is known, and the member has all that is for it.
	ClusterInSync = "InSync"
	// ClusterClaimsRefused: the member has claimed something that it may not.
	ClusterClaimsRefused = "ClaimsRefused"
	// ClusterNamed: what the member calls itself and the set by the About API is its name here, and
	// what older members call the set. It is there where the member calls itself anything.
	ClusterNamed = "NameAgrees"
)

// The reasons of these conditions.
const (
	// ReasonOK goes with every condition that is as one would wish.
	ReasonOK = "OK"
	// ReasonNotJoined (Cluster): no member has used the token yet.
	ReasonNotJoined = "NotJoined"
	// ReasonNotHeard (Cluster, Membership): the other side is silent. What it sent last counts.
	ReasonNotHeard = "NotHeard"
	// ReasonVersion: the member is too old for a policy, and keeps the version that it has.
	ReasonVersion = "NeedsNewer"
	// ReasonBounds (Cluster, Membership): the member claims what the spec of the Cluster does not
	// allow it.
	ReasonBounds = "OutsideBounds"
	// ReasonOverlap (Cluster): the member claims addresses that another member has.
	ReasonOverlap = "AddressesOverlap"
	// ReasonAccountTaken (Cluster): the member works on a cloud account that another member works
	// on.
	ReasonAccountTaken = "AccountTaken"
	// ReasonSyncing (Cluster): what is for the member, or what it has, is still on its way.
	ReasonSyncing = "Syncing"
	// ReasonExpired (Cluster, Membership): the other side is silent for longer than staleAfter.
	ReasonExpired = "Expired"
	// ReasonIdentityHidden: a rule names Pods whose addresses are not seen where it is enforced.
	ReasonIdentityHidden = "IdentityHidden"
	// ReasonPeerTooBroad: a peer means more workloads of other clusters than are sent.
	ReasonPeerTooBroad = "PeerTooBroad"
	// ReasonNoCluster: a peer names clusters that the set does not have.
	ReasonNoCluster = "NoSuchCluster"
	// ReasonTooMany: a member's own policies have more peers of other clusters than they may.
	ReasonTooMany = "TooManySelectors"
)

// ClusterAddresses are the addresses that a cluster may speak for, as CIDRs. What is not named is
// not believed.
type ClusterAddresses struct {
	// Pods has the addresses of its Pods.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="want CIDRs, such as 10.1.0.0/16"
	// +listType=set
	// +optional
	Pods []string `json:"pods,omitempty"`
	// Nodes has the addresses of its Nodes.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="want CIDRs, such as 192.168.1.0/24"
	// +listType=set
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// Machines has the addresses of its virtual machines and hosts: of its ExternalEntities.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="want CIDRs, such as 172.16.0.0/12"
	// +listType=set
	// +optional
	Machines []string `json:"machines,omitempty"`
	// LoadBalancers are those at which Services that it exports are reached besides its Pods and
	// Nodes.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="want CIDRs, such as 203.0.113.0/28"
	// +listType=set
	// +optional
	LoadBalancers []string `json:"loadBalancers,omitempty"`
}

// Seen is as what the Pods of a cluster are seen elsewhere.
// +kubebuilder:validation:Enum=Routable;Node;Egress
type Seen string

const (
	// SeenRoutable: by their own addresses.
	SeenRoutable Seen = "Routable"
	// SeenNode: by the addresses of their Nodes, which masquerade.
	SeenNode Seen = "Node"
	// SeenEgress: by a few addresses that are named, such as addresses of gateways.
	SeenEgress Seen = "Egress"
)

// SeenAs says by which addresses receivers see the Pods of a cluster.
// +kubebuilder:validation:XValidation:rule="(self.as == 'Egress') == (has(self.addresses) && size(self.addresses) > 0)",message="addresses belong to Egress, and to nothing else"
type SeenAs struct {
	// To is where they send to, as a CIDR. Of several the longest counts.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="want a CIDR, such as 10.0.0.0/8"
	To string `json:"to"`
	// As is Routable, Node or Egress.
	As Seen `json:"as"`
	// Addresses are those by which they are seen, with Egress.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="want addresses, such as 203.0.113.7"
	// +listType=set
	// +optional
	Addresses []string `json:"addresses,omitempty"`
}

// The bounds of what a member may claim where its Cluster says nothing else.
const (
	DefaultMostEntities  = 50_000
	DefaultMostLabelSets = 5_000
	DefaultMostSelectors = 100
)

// ClusterLimits bound what is kept for a member.
type ClusterLimits struct {
	// Entities are its Pods, machines and Nodes, and the endpoints of Services that it exports;
	// 50000 if absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Entities *int32 `json:"entities,omitempty"`
	// LabelSets are the different labels that they have; 5000 if absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	LabelSets *int32 `json:"labelSets,omitempty"`
	// Selectors are the different peers of other clusters that the member's own policies have; 100
	// if absent. With 0 its own policies mean nobody of other clusters.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Selectors *int32 `json:"selectors,omitempty"`
}

// ClusterSpec is what the hub believes of a member.
type ClusterSpec struct {
	// Addresses are those that it may speak for.
	// +optional
	Addresses ClusterAddresses `json:"addresses,omitempty"`
	// Namespaces are those that it may speak for: names, or beginnings of names followed by "*".
	// Absent: all.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9-]*\*?$`
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// VisibleNamespaces are the Namespaces whose workloads the own policies of other members may
	// name: names, or beginnings of names followed by "*". Absent: none. "*" shows the Nodes as
	// well. Policies of the hub may name all.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9-]*\*?$`
	// +listType=set
	// +optional
	VisibleNamespaces []string `json:"visibleNamespaces,omitempty"`
	// Accounts are the regions of cloud accounts that it may say to work on, such as
	// aws/111122223333/eu-west-1, or beginnings of them followed by "*". Absent: all.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Accounts []string `json:"accounts,omitempty"`
	// Limits bound what it may claim.
	// +optional
	Limits ClusterLimits `json:"limits,omitempty"`
	// SeenAs says as what its Pods are seen where they send to. What is not named is Routable.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=to
	// +optional
	SeenAs []SeenAs `json:"seenAs,omitempty"`
	// StaleAfter is how long what it has told counts in rules that allow while it is not heard of;
	// absent: without end. In other rules it always counts.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="want 1m or more"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// ClusterStatus is what is known of a member.
type ClusterStatus struct {
	// Version is that of its program, Protocol the version of the feed that is spoken with it.
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Protocol int32 `json:"protocol,omitempty"`
	// ClusterID is the uid of its Namespace kube-system.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Since is when the present connection began, LastHeard about when something came last.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// +optional
	LastHeard *metav1.Time `json:"lastHeard,omitempty"`
	// Namespaces and Entities are how many it has that are believed.
	// +optional
	Namespaces int32 `json:"namespaces,omitempty"`
	// +optional
	Entities int32 `json:"entities,omitempty"`
	// Policies is how many policies of the hub are for it.
	// +optional
	Policies int32 `json:"policies,omitempty"`
	// KubernetesPolicies are the NetworkPolicies of Kubernetes of the hub that are for it, which
	// have no status themselves, and how far they are realized there: at most 200, the unrealized
	// first. KubernetesPoliciesMore is how many are left out.
	// +optional
	KubernetesPolicies []KubernetesPolicy `json:"kubernetesPolicies,omitempty"`
	// +optional
	KubernetesPoliciesMore int32 `json:"kubernetesPoliciesMore,omitempty"`
	// Selectors is how many peers of other clusters its own policies have.
	// +optional
	Selectors int32 `json:"selectors,omitempty"`
	// Refused is how many of its claims are not believed at present.
	// +optional
	Refused int32 `json:"refused,omitempty"`
	// Conditions: Connected, InSync, ClaimsRefused, NameAgrees.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KubernetesPolicy is how far a NetworkPolicy of Kubernetes is realized in a cluster, in the words
// of status.clusters of a policy.
type KubernetesPolicy struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Phase is Unknown before the cluster has reported it, and where no enforcer there reports it:
	// Antrea's agents do not for such policies.
	// +optional
	Phase string `json:"phase,omitempty"`
	// +optional
	CurrentNodesRealized int32 `json:"currentNodesRealized,omitempty"`
	// +optional
	DesiredNodesRealized int32 `json:"desiredNodesRealized,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// Cluster is a member of the set, in its hub. Its labels are what policies select it by. A cluster
// that joins by a token of it is this member; when it is deleted, the member's certificates end.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="the name of a Cluster is a label: lower-case letters, digits and '-', at most 63"
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="In-Sync",type=string,JSONPath=`.status.conditions[?(@.type=="InSync")].status`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Entities",type=integer,JSONPath=`.status.entities`
// +kubebuilder:printcolumn:name="Policies",type=integer,JSONPath=`.status.policies`
// +kubebuilder:printcolumn:name="Refused",type=integer,JSONPath=`.status.refused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec,omitempty"`
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Clusters.
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Cluster `json:"items"`
}

// ClusterRecord is a part of what a hub believes of a member, as the hub keeps it: so that one that
// begins anew still knows of members that have not spoken yet. Nobody else writes it, and nobody is
// to.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Entities",type=integer,JSONPath=`.entities`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Cluster is the name of the Cluster, ClusterUID its uid.
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster"`
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID"`
	// Entities is how many there are in this part.
	// +optional
	Entities int32 `json:"entities"`
	// Content is what the member has told, as in the feed, gzip, base64 in the standard alphabet.
	// +kubebuilder:validation:MaxLength=1048576
	// +optional
	Content string `json:"content,omitempty"`
}

// ClusterRecordList is a list of ClusterRecords.
// +kubebuilder:object:root=true
type ClusterRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterRecord `json:"items"`
}
