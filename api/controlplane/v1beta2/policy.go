package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Direction of the traffic that a rule is about, seen from the workload that the rule is applied
// to.
type Direction string

// The directions.
const (
	DirectionIn  Direction = "In"
	DirectionOut Direction = "Out"
)

// RuleAction is what happens to the traffic that a rule matches. It is absent only in the rule that
// denies all other traffic of a Kubernetes NetworkPolicy.
type RuleAction string

// The actions.
const (
	RuleActionAllow  RuleAction = "Allow"
	RuleActionDrop   RuleAction = "Drop"
	RuleActionPass   RuleAction = "Pass"
	RuleActionReject RuleAction = "Reject"
)

// Protocol names what a Service matches.
type Protocol string

// The protocols. ICMP stands for ICMP on IPv4 and ICMPv6 on IPv6.
const (
	ProtocolTCP  Protocol = "TCP"
	ProtocolUDP  Protocol = "UDP"
	ProtocolSCTP Protocol = "SCTP"
	ProtocolICMP Protocol = "ICMP"
	ProtocolIGMP Protocol = "IGMP"
)

// NetworkPolicyType says what kind of object a policy was computed from.
type NetworkPolicyType string

// The kinds of source. On the wire a policy computed from an upstream ClusterNetworkPolicy says
// ClusterNetworkPolicy.
const (
	K8sNetworkPolicy           NetworkPolicyType = "K8sNetworkPolicy"
	AntreaClusterNetworkPolicy NetworkPolicyType = "AntreaClusterNetworkPolicy"
	AntreaNetworkPolicy        NetworkPolicyType = "AntreaNetworkPolicy"
	AdminNetworkPolicy         NetworkPolicyType = "AdminNetworkPolicy"
	BaselineAdminNetworkPolicy NetworkPolicyType = "BaselineAdminNetworkPolicy"
	ClusterNetworkPolicy       NetworkPolicyType = "ClusterNetworkPolicy"
)

// NetworkPolicy is a computed policy. Its name and uid are the uid of the object it was computed
// from.
// +kubebuilder:object:root=true
type NetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// Rules in no particular order; Priority of the rule tells their order within a direction.
	Rules []NetworkPolicyRule `json:"rules,omitempty" protobuf:"bytes,2,rep,name=rules"`
	// AppliedToGroups are the names of the groups the policy is applied to; empty when the rules
	// name theirs.
	AppliedToGroups []string `json:"appliedToGroups,omitempty" protobuf:"bytes,3,rep,name=appliedToGroups"`
	// Priority within the tier; nil for Kubernetes policies.
	Priority *float64 `json:"priority,omitempty" protobuf:"fixed64,4,opt,name=priority"`
	// TierPriority is the priority of the tier; nil for Kubernetes policies.
	TierPriority *int32 `json:"tierPriority,omitempty" protobuf:"varint,5,opt,name=tierPriority"`
	// SourceRef points at the object that the policy was computed from. It is there in every event,
	// also DELETED.
	SourceRef *NetworkPolicyReference `json:"sourceRef,omitempty" protobuf:"bytes,6,opt,name=sourceRef"`
}

// NetworkPolicyList is a list of NetworkPolicy.
// +kubebuilder:object:root=true
type NetworkPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []NetworkPolicy `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// NetworkPolicyReference points at the object that a policy was computed from.
type NetworkPolicyReference struct {
	Type NetworkPolicyType `json:"type,omitempty" protobuf:"bytes,1,opt,name=type,casttype=NetworkPolicyType"`
	// Namespace is empty for cluster-wide policies.
	Namespace string    `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace"`
	Name      string    `json:"name,omitempty" protobuf:"bytes,3,opt,name=name"`
	UID       types.UID `json:"uid,omitempty" protobuf:"bytes,4,opt,name=uid,casttype=k8s.io/apimachinery/pkg/types.UID"`
}

// NetworkPolicyRule is one rule of a computed policy.
type NetworkPolicyRule struct {
	Direction Direction `json:"direction,omitempty" protobuf:"bytes,1,opt,name=direction,casttype=Direction"`
	// From is the set of sources of an In rule.
	From NetworkPolicyPeer `json:"from,omitempty" protobuf:"bytes,2,opt,name=from"`
	// To is the set of destinations of an Out rule.
	To NetworkPolicyPeer `json:"to,omitempty" protobuf:"bytes,3,opt,name=to"`
	// Services are the matched protocols and ports; none means any.
	Services []Service `json:"services,omitempty" protobuf:"bytes,4,rep,name=services"`
	// Priority is the index of the rule among the rules of its direction, from 0; -1 for Kubernetes
	// rules that allow.
	Priority int32 `json:"priority,omitempty" protobuf:"varint,5,opt,name=priority"`
	// Action is nil only in the rule that denies all other traffic of a Kubernetes NetworkPolicy.
	Action *RuleAction `json:"action,omitempty" protobuf:"bytes,6,opt,name=action,casttype=RuleAction"`
	// EnableLogging asks to log the first packet of every matching connection.
	EnableLogging bool `json:"enableLogging" protobuf:"varint,7,opt,name=enableLogging"`
	// AppliedToGroups are the names of the groups the rule is applied to; empty when the policy
	// names them.
	AppliedToGroups []string `json:"appliedToGroups,omitempty" protobuf:"bytes,8,rep,name=appliedToGroups"`
	// Name of the rule; empty for Kubernetes rules.
	Name string `json:"name,omitempty" protobuf:"bytes,9,opt,name=name"`
	// L7Protocols narrow allowed traffic.
	L7Protocols []L7Protocol `json:"l7Protocols,omitempty" protobuf:"bytes,10,rep,name=l7Protocols"`
	// LogLabel is written with every log line of the rule.
	LogLabel string `json:"logLabel,omitempty" protobuf:"bytes,11,opt,name=logLabel"`
}

// NetworkPolicyPeer is the union of its fields. All of them empty matches nothing.
type NetworkPolicyPeer struct {
	// AddressGroups are the names of groups whose members belong to the peer.
	AddressGroups []string `json:"addressGroups,omitempty" protobuf:"bytes,1,rep,name=addressGroups"`
	// IPBlocks are sets of addresses.
	IPBlocks []IPBlock `json:"ipBlocks,omitempty" protobuf:"bytes,2,rep,name=ipBlocks"`
	// FQDNs are domain names, in which * stands for any characters.
	FQDNs []string `json:"fqdns,omitempty" protobuf:"bytes,3,rep,name=fqdns"`
	// ToServices are Services.
	ToServices []ServiceReference `json:"toServices,omitempty" protobuf:"bytes,4,rep,name=toServices"`
	// LabelIdentities are label sets of other clusters.
	LabelIdentities []uint32 `json:"labelIdentities,omitempty" protobuf:"varint,5,rep,name=labelIdentities"`
}

// Service is a protocol, and the ports or types of it.
type Service struct {
	// Protocol is nil for a named port of an Antrea policy: that of the member's port counts.
	Protocol *Protocol `json:"protocol,omitempty" protobuf:"bytes,1,opt,name=protocol,casttype=Protocol"`
	// Port is a number or a name; nil means any.
	Port *intstr.IntOrString `json:"port,omitempty" protobuf:"bytes,2,opt,name=port"`
	// EndPort is the last port of a range that starts at Port.
	EndPort *int32 `json:"endPort,omitempty" protobuf:"varint,3,opt,name=endPort"`
	// ICMPType and ICMPCode are any when nil.
	ICMPType *int32 `json:"icmpType,omitempty" protobuf:"varint,4,opt,name=icmpType"`
	ICMPCode *int32 `json:"icmpCode,omitempty" protobuf:"varint,5,opt,name=icmpCode"`
	// IGMPType and GroupAddress are any when nil or empty.
	IGMPType     *int32 `json:"igmpType,omitempty" protobuf:"varint,6,opt,name=igmpType"`
	GroupAddress string `json:"groupAddress,omitempty" protobuf:"bytes,7,opt,name=groupAddress"`
	// SrcPort and SrcEndPort are the range of the source port; any when nil.
	SrcPort    *int32 `json:"srcPort,omitempty" protobuf:"varint,8,opt,name=srcPort"`
	SrcEndPort *int32 `json:"srcEndPort,omitempty" protobuf:"varint,9,opt,name=srcEndPort"`
}

// IPAddress is an address of 16 bytes; an IPv4 address is in the form ::ffff:a.b.c.d. Readers
// accept 4 bytes as well.
type IPAddress []byte

// IPNet is an address range. Host bits may be set.
type IPNet struct {
	IP IPAddress `json:"ip,omitempty" protobuf:"bytes,1,opt,name=ip,casttype=IPAddress"`
	// PrefixLength is 0..32 for an IPv4 address (although it has 16 bytes) and 0..128 for an IPv6
	// one.
	PrefixLength int32 `json:"prefixLength,omitempty" protobuf:"varint,2,opt,name=prefixLength"`
}

// IPBlock is a set of addresses: those in CIDR but in none of Except.
type IPBlock struct {
	CIDR   IPNet   `json:"cidr" protobuf:"bytes,1,opt,name=cidr"`
	Except []IPNet `json:"except,omitempty" protobuf:"bytes,2,rep,name=except"`
}

// L7Protocol is one application protocol; one field is set.
type L7Protocol struct {
	HTTP *HTTPProtocol `json:"http,omitempty" protobuf:"bytes,1,opt,name=http"`
	TLS  *TLSProtocol  `json:"tls,omitempty" protobuf:"bytes,2,opt,name=tls"`
}

// HTTPProtocol matches HTTP requests; an empty field matches anything.
type HTTPProtocol struct {
	Host   string `json:"host,omitempty" protobuf:"bytes,1,opt,name=host"`
	Method string `json:"method,omitempty" protobuf:"bytes,2,opt,name=method"`
	Path   string `json:"path,omitempty" protobuf:"bytes,3,opt,name=path"`
}

// TLSProtocol matches TLS handshakes; an empty field matches anything.
type TLSProtocol struct {
	SNI string `json:"sni,omitempty" protobuf:"bytes,1,opt,name=sni"`
}

// NetworkPolicyStatus is what enforcers report about one policy, whose name it bears.
// +kubebuilder:object:root=true
type NetworkPolicyStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// Nodes has one entry per reporting enforcer.
	Nodes []NetworkPolicyNodeStatus `json:"nodes,omitempty" protobuf:"bytes,2,rep,name=nodes"`
}

// NetworkPolicyNodeStatus is what one enforcer reports about one policy.
type NetworkPolicyNodeStatus struct {
	// NodeName is the key with which the enforcer watches.
	NodeName string `json:"nodeName,omitempty" protobuf:"bytes,1,opt,name=nodeName"`
	// Generation of the policy that was realized, or not.
	Generation int64 `json:"generation,omitempty" protobuf:"varint,2,opt,name=generation"`
	// RealizationFailure says that the enforcer could not realize it.
	RealizationFailure bool `json:"realizationFailure,omitempty" protobuf:"varint,3,opt,name=realizationFailure"`
	// Message says why.
	Message string `json:"message,omitempty" protobuf:"bytes,4,opt,name=message"`

	// Workloads is to how many workloads of the enforcer the policy applies, and WorkloadsRealized
	// on how many of them it is in force; 0 of both if the enforcer does not count.
	// WorkloadsPlanned are those that are only planned for, and WorkloadsSuspended those that a
	// mode, a release or the brake keeps it from: where these are all the others, a
	// RealizationFailure is none. An Antrea Controller knows none of the four.
	Workloads          int32 `json:"workloads,omitempty" protobuf:"varint,13,opt,name=workloads"`
	WorkloadsRealized  int32 `json:"workloadsRealized,omitempty" protobuf:"varint,14,opt,name=workloadsRealized"`
	WorkloadsPlanned   int32 `json:"workloadsPlanned,omitempty" protobuf:"varint,15,opt,name=workloadsPlanned"`
	WorkloadsSuspended int32 `json:"workloadsSuspended,omitempty" protobuf:"varint,12,opt,name=workloadsSuspended"`
}
