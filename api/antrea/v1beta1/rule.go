package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RuleAction is what happens to the traffic that a rule matches.
// +kubebuilder:validation:Enum=Allow;Drop;Pass;Reject
type RuleAction string

// The actions.
const (
	RuleActionAllow  RuleAction = "Allow"
	RuleActionDrop   RuleAction = "Drop"
	RuleActionPass   RuleAction = "Pass"
	RuleActionReject RuleAction = "Reject"
)

// Protocol is a transport protocol.
// +kubebuilder:validation:Enum=TCP;UDP;SCTP
type Protocol string

// The transport protocols.
const (
	ProtocolTCP  Protocol = "TCP"
	ProtocolUDP  Protocol = "UDP"
	ProtocolSCTP Protocol = "SCTP"
)

// PeerScope says how far a selector or a Service reference reaches.
// +kubebuilder:validation:Enum=Cluster;ClusterSet
type PeerScope string

// The scopes. Absent means Cluster.
const (
	ScopeCluster    PeerScope = "Cluster"
	ScopeClusterSet PeerScope = "ClusterSet"
)

// NamespaceMatchType says how the namespace of a peer relates to that of the workload the policy is
// applied to.
// +kubebuilder:validation:Enum=Self
type NamespaceMatchType string

// NamespaceMatchSelf: both are in the same namespace.
const NamespaceMatchSelf NamespaceMatchType = "Self"

// Rule is one ingress or egress rule. In an ingress rule To and ToServices are absent; in an egress
// rule From is.
// +kubebuilder:validation:XValidation:rule="!(has(self.toServices) && size(self.toServices) > 0) || !((has(self.to) && size(self.to) > 0) || (has(self.ports) && size(self.ports) > 0) || (has(self.protocols) && size(self.protocols) > 0))",message="toServices must not be combined with to, ports or protocols",fieldPath=".toServices"
// +kubebuilder:validation:XValidation:rule="!(has(self.l7Protocols) && size(self.l7Protocols) > 0) || self.action == 'Allow'",message="l7Protocols requires the action Allow",fieldPath=".l7Protocols"
// +kubebuilder:validation:XValidation:rule="!(has(self.l7Protocols) && size(self.l7Protocols) > 0) || !(has(self.toServices) && size(self.toServices) > 0)",message="l7Protocols must not be combined with toServices",fieldPath=".l7Protocols"
type Rule struct {
	// Action is what happens to the traffic that the rule matches.
	Action RuleAction `json:"action"`
	// Ports of the destination. None, and no Protocols, means all traffic.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Ports []NetworkPolicyPort `json:"ports,omitempty"`
	// Protocols other than the transport protocols; they add to Ports.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Protocols []NetworkPolicyProtocol `json:"protocols,omitempty"`
	// L7Protocols narrow allowed traffic by its application protocol.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	L7Protocols []L7Protocol `json:"l7Protocols,omitempty"`
	// From lists the sources of an ingress rule. None means any.
	// +kubebuilder:validation:MaxItems=512
	// +listType=atomic
	// +optional
	From []NetworkPolicyPeer `json:"from,omitempty"`
	// To lists the destinations of an egress rule. None means any.
	// +kubebuilder:validation:MaxItems=512
	// +listType=atomic
	// +optional
	To []NetworkPolicyPeer `json:"to,omitempty"`
	// ToServices lists the Services that are the destination of an egress rule; it stands alone.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	ToServices []PeerService `json:"toServices,omitempty"`
	// Name of the rule, unique in the policy. One is generated when it is empty.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
	// EnableLogging logs the first packet of every connection that the rule matches.
	// +optional
	EnableLogging bool `json:"enableLogging,omitempty"`
	// LogLabel is written with every log line of the rule.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	// +optional
	LogLabel string `json:"logLabel,omitempty"`
	// AppliedTo says what the rule is applied to. Either all rules of a policy have it, or the
	// policy has.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	AppliedTo []AppliedTo `json:"appliedTo,omitempty"`
}

// NetworkPolicyPort is a range of transport ports.
// +kubebuilder:validation:XValidation:rule="!has(self.port) || type(self.port) != int || (self.port >= 1 && self.port <= 65535)",message="port must be in 1..65535",fieldPath=".port"
// +kubebuilder:validation:XValidation:rule="!has(self.endPort) || (has(self.port) && type(self.port) == int && self.endPort >= int(self.port))",message="endPort requires a numeric port and must not be less than it",fieldPath=".endPort"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceEndPort) || (has(self.sourcePort) && self.sourceEndPort >= self.sourcePort)",message="sourceEndPort requires sourcePort and must not be less than it",fieldPath=".sourceEndPort"
type NetworkPolicyPort struct {
	// Protocol is TCP when absent.
	// +optional
	Protocol *Protocol `json:"protocol,omitempty"`
	// Port is a number or a name. Absent means all ports of the protocol.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`
	// EndPort is the last port of a range that starts at Port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	EndPort *int32 `json:"endPort,omitempty"`
	// SourcePort is the port of the source. Absent means any.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	SourcePort *int32 `json:"sourcePort,omitempty"`
	// SourceEndPort is the last port of a range that starts at SourcePort.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	SourceEndPort *int32 `json:"sourceEndPort,omitempty"`
}

// NetworkPolicyProtocol is one protocol that has no ports. Exactly one field is set.
// +kubebuilder:validation:XValidation:rule="has(self.icmp) || has(self.igmp)",message="one of icmp and igmp must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.icmp) || !has(self.igmp)",message="icmp and igmp must not be in one entry; two entries match both"
type NetworkPolicyProtocol struct {
	// ICMP is ICMP on IPv4 and ICMPv6 on IPv6.
	// +optional
	ICMP *ICMPProtocol `json:"icmp,omitempty"`
	// IGMP is multicast group management.
	// +optional
	IGMP *IGMPProtocol `json:"igmp,omitempty"`
}

// ICMPProtocol is ICMP traffic: ICMP on IPv4 and ICMPv6 on IPv6.
// +kubebuilder:validation:XValidation:rule="!has(self.icmpCode) || has(self.icmpType)",message="icmpCode requires icmpType",fieldPath=".icmpCode"
type ICMPProtocol struct {
	// ICMPType is any when absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +optional
	ICMPType *int32 `json:"icmpType,omitempty"`
	// ICMPCode is any when absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +optional
	ICMPCode *int32 `json:"icmpCode,omitempty"`
}

// IGMPProtocol is IGMP traffic.
type IGMPProtocol struct {
	// IGMPType is 0x11 (17) in ingress rules, and 0x12 (18), 0x16 (22) or 0x22 (34) in egress
	// rules. Absent means any.
	// +optional
	IGMPType *int32 `json:"igmpType,omitempty"`
	// GroupAddress is a multicast address.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	GroupAddress string `json:"groupAddress,omitempty"`
}

// L7Protocol is one application protocol. Exactly one field is set.
// +kubebuilder:validation:XValidation:rule="has(self.http) || has(self.tls)",message="one of http and tls must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.http) || !has(self.tls)",message="http and tls must not be in one entry; two entries match both"
type L7Protocol struct {
	// HTTP matches requests.
	// +optional
	HTTP *HTTPProtocol `json:"http,omitempty"`
	// TLS matches handshakes.
	// +optional
	TLS *TLSProtocol `json:"tls,omitempty"`
}

// HTTPProtocol matches HTTP requests. An empty field matches anything.
type HTTPProtocol struct {
	// Host of the request, in which * stands for any characters.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Host string `json:"host,omitempty"`
	// Method of the request.
	// +kubebuilder:validation:Enum=GET;POST;PUT;HEAD;DELETE;TRACE;OPTIONS;CONNECT;PATCH
	// +optional
	Method string `json:"method,omitempty"`
	// Path of the request, in which * stands for any characters.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Path string `json:"path,omitempty"`
}

// TLSProtocol matches TLS handshakes. An empty field matches anything.
type TLSProtocol struct {
	// SNI is the server name asked for, in which * stands for any characters.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SNI string `json:"sni,omitempty"`
}

// NetworkPolicyPeer is a set of sources or destinations.
// +kubebuilder:validation:XValidation:rule="!has(self.group) || !(has(self.podSelector) || has(self.namespaceSelector) || has(self.externalEntitySelector) || has(self.ipBlock) || has(self.nodeSelector) || has(self.namespaces) || has(self.serviceAccount) || has(self.fqdn))",message="group must not be combined with other fields",fieldPath=".group"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeSelector) || !(has(self.podSelector) || has(self.namespaceSelector) || has(self.externalEntitySelector) || has(self.ipBlock) || has(self.group) || has(self.namespaces) || has(self.serviceAccount) || has(self.fqdn))",message="nodeSelector must not be combined with other fields",fieldPath=".nodeSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccount) || !(has(self.podSelector) || has(self.namespaceSelector) || has(self.externalEntitySelector) || has(self.ipBlock) || has(self.group) || has(self.nodeSelector) || has(self.namespaces) || has(self.fqdn))",message="serviceAccount must not be combined with other fields",fieldPath=".serviceAccount"
// +kubebuilder:validation:XValidation:rule="!has(self.namespaces) || !has(self.namespaceSelector)",message="namespaces must not be combined with namespaceSelector",fieldPath=".namespaces"
type NetworkPolicyPeer struct {
	// PodSelector selects Pods by label.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector selects namespaces by label. Alone it selects all Pods in them; with a Pod
	// or external entity selector, the namespaces these are looked for in.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ExternalEntitySelector selects external entities by label.
	// +optional
	ExternalEntitySelector *metav1.LabelSelector `json:"externalEntitySelector,omitempty"`
	// IPBlock is a set of addresses.
	// +optional
	IPBlock *IPBlock `json:"ipBlock,omitempty"`
	// Group is the name of a Group (in a NetworkPolicy) or ClusterGroup (in a
	// ClusterNetworkPolicy); it stands alone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// NodeSelector selects Nodes by label; it stands alone.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Namespaces relates the namespace of the peer to that of the workload (ClusterNetworkPolicy
	// only).
	// +optional
	Namespaces *PeerNamespaces `json:"namespaces,omitempty"`
	// ServiceAccount selects the Pods that run as it (ClusterNetworkPolicy only); it stands alone.
	// +optional
	ServiceAccount *NamespacedName `json:"serviceAccount,omitempty"`
	// FQDN is a domain name, in which * stands for any characters (egress only).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-0-9a-zA-Z.*]*$`
	// +optional
	FQDN string `json:"fqdn,omitempty"`
	// Scope says how far the selectors reach; Cluster when absent (ingress only).
	// +optional
	Scope PeerScope `json:"scope,omitempty"`
}

// PeerNamespaces relates the namespace of a peer to that of the workload. Exactly one field is set.
// +kubebuilder:validation:XValidation:rule="has(self.match) || has(self.sameLabels)",message="one of match and sameLabels must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.sameLabels)",message="match and sameLabels must not be combined"
type PeerNamespaces struct {
	// Match Self: the same namespace.
	// +optional
	Match NamespaceMatchType `json:"match,omitempty"`
	// SameLabels: namespaces with the same value of each of these label keys.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=atomic
	// +optional
	SameLabels []string `json:"sameLabels,omitempty"`
}

// IPBlock is a set of addresses: those in CIDR but in none of Except.
type IPBlock struct {
	// CIDR in text form, IPv4 or IPv6.
	// +kubebuilder:validation:Format=cidr
	// +kubebuilder:validation:MaxLength=49
	CIDR string `json:"cidr"`
	// Except lists ranges inside CIDR that do not belong to the set.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:Format=cidr
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=atomic
	// +optional
	Except []string `json:"except,omitempty"`
}

// NamespacedName points at an object in a namespace.
type NamespacedName struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// PeerService points at a Service.
type PeerService struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Service. In a NetworkPolicy its own namespace is the default.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Scope says where the Service is looked for; Cluster when absent.
	// +optional
	Scope PeerScope `json:"scope,omitempty"`
}

// AppliedTo is a set of workloads that a policy or rule is applied to.
// +kubebuilder:validation:XValidation:rule="!has(self.group) || !(has(self.podSelector) || has(self.namespaceSelector) || has(self.externalEntitySelector) || has(self.serviceAccount) || has(self.service) || has(self.nodeSelector))",message="group must not be combined with other fields",fieldPath=".group"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccount) || !(has(self.podSelector) || has(self.namespaceSelector) || has(self.externalEntitySelector) || has(self.group) || has(self.service) || has(self.nodeSelector))",message="serviceAccount must not be combined with other fields",fieldPath=".serviceAccount"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !(has(self.podSelector) || has(self.namespaceSelector) || has(self.externalEntitySelector) || has(self.group) || has(self.serviceAccount) || has(self.nodeSelector))",message="service must not be combined with other fields",fieldPath=".service"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeSelector) || !(has(self.podSelector) || has(self.namespaceSelector) || has(self.externalEntitySelector) || has(self.group) || has(self.serviceAccount) || has(self.service))",message="nodeSelector must not be combined with other fields",fieldPath=".nodeSelector"
type AppliedTo struct {
	// PodSelector selects Pods by label.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector selects namespaces by label (ClusterNetworkPolicy only). Alone it selects
	// all Pods in them; with a Pod or external entity selector, the namespaces these are looked for
	// in.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ExternalEntitySelector selects external entities by label.
	// +optional
	ExternalEntitySelector *metav1.LabelSelector `json:"externalEntitySelector,omitempty"`
	// Group is the name of a Group (in a NetworkPolicy) or ClusterGroup (in a
	// ClusterNetworkPolicy); it stands alone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// ServiceAccount selects the Pods that run as it (ClusterNetworkPolicy only); it stands alone.
	// +optional
	ServiceAccount *NamespacedName `json:"serviceAccount,omitempty"`
	// Service applies ingress rules to the traffic to a NodePort Service (ClusterNetworkPolicy
	// only); it stands alone.
	// +optional
	Service *NamespacedName `json:"service,omitempty"`
	// NodeSelector selects Nodes by label (ClusterNetworkPolicy only); it stands alone.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}
