package policy

import "net/netip"

// EntityKind says what an Entity is. The numeric order is the order in which kinds are listed.
type EntityKind uint8

// The kinds of entities.
const (
	KindExternalEntity EntityKind = iota + 1
	KindPod
	KindNode
	// KindService occurs in group members only; Services are given to the Engine as Service values.
	KindService
	// KindRemote is what stands for workloads of other clusters of the set: their addresses, with
	// the remote groups that these are in as the keys of its labels. It is in no Namespace, and no
	// selector chooses it: only Peer.RemoteGroup does.
	KindRemote
)

// String returns the Kubernetes kind, for example "ExternalEntity".
func (k EntityKind) String() string {
	switch k {
	case KindExternalEntity:
		return "ExternalEntity"
	case KindPod:
		return "Pod"
	case KindNode:
		return "Node"
	case KindService:
		return "Service"
	case KindRemote:
		return "RemoteAddress"
	}
	return "unknown"
}

// EntityRef identifies an entity. Namespace is empty for Nodes and remote ones.
type EntityRef struct {
	Kind      EntityKind
	Namespace string
	Name      string
}

// NamespacedName names a namespaced object of a kind that the context tells.
type NamespacedName struct {
	Namespace string
	Name      string
}

// Namespace is a Kubernetes Namespace.
type Namespace struct {
	Name   string
	Labels map[string]string
	// LogNetworkPolicies turns on logging for all Kubernetes NetworkPolicies of the Namespace
	// (annotation networkpolicy.antrea.io/enable-logging).
	LogNetworkPolicies bool
}

// Entity is anything with addresses that policies apply to or name as a peer.
type Entity struct {
	EntityRef
	Labels map[string]string
	// Addresses are listed to enforcers in this order. For a Node: every address that peers of that
	// Node should know, in the order they should be listed. The Engine copies them.
	Addresses []netip.Addr
	Ports     []NamedPort
	// Host is the key of the enforcer responsible: the Node name of a Pod; for an ExternalEntity
	// its spec.externalNode, or "namespace/name" of the ExternalNode that owns it. Empty: the
	// entity can be a peer, but nothing is ever applied to it. Ignored for Nodes, which are their
	// own enforcers.
	Host string
	// ServiceAccount is the name of a Pod's service account in its Namespace.
	ServiceAccount string
	// HostNetwork marks a Pod that shares its Node's addresses. Such a Pod is never a member of a
	// group.
	HostNetwork bool
	// Terminated marks a Pod in phase Succeeded or Failed. Such a Pod is never a member of a group.
	Terminated bool
}

// NamedPort is a named port of an entity. An empty Protocol means TCP.
type NamedPort struct {
	Name     string
	Protocol Protocol
	Port     int32
}

// Service is a Kubernetes Service, as far as groups with a serviceReference need it.
type Service struct {
	Namespace string
	Name      string
	// Selector selects the Pods behind the Service; an empty one selects none.
	Selector map[string]string
}

// Tier orders policies. The six system tiers (SystemTiers) are known to every Engine; putting a
// Tier of the same name overrides the priority.
type Tier struct {
	Name string
	// Priority is 0..255, the lower the earlier.
	Priority int32
}

// Selector is a label selector. A nil *Selector is absent, an empty one selects everything.
type Selector struct {
	MatchLabels      map[string]string
	MatchExpressions []Requirement
}

// Requirement is one entry of matchExpressions.
type Requirement struct {
	Key string
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string
	Values   []string
}

// IPBlock is a CIDR with exceptions, as written by the user.
type IPBlock struct {
	CIDR   string
	Except []string
}

// Group is an Antrea Group, or a ClusterGroup if Namespace is empty.
type Group struct {
	Namespace string
	Name      string
	UID       string

	PodSelector            *Selector
	NamespaceSelector      *Selector
	ExternalEntitySelector *Selector
	NodeSelector           *Selector
	IPBlocks               []IPBlock
	ServiceReference       *NamespacedName
	ChildGroups            []string
}

// PolicyKind says what object a policy was made from. The values are the values of sourceRef.type
// on the wire.
type PolicyKind string

// The kinds of policies. The last three are the upstream kinds, of policy.networking.k8s.io; they
// have no Tier object: see Policy.TierPriority.
const (
	KubernetesNetworkPolicy    PolicyKind = "K8sNetworkPolicy"
	AntreaNetworkPolicy        PolicyKind = "AntreaNetworkPolicy"
	AntreaClusterNetworkPolicy PolicyKind = "AntreaClusterNetworkPolicy"
	AdminNetworkPolicy         PolicyKind = "AdminNetworkPolicy"
	BaselineAdminNetworkPolicy PolicyKind = "BaselineAdminNetworkPolicy"
	ClusterNetworkPolicy       PolicyKind = "ClusterNetworkPolicy"
)

// Upstream reports whether the kind is one of policy.networking.k8s.io.
func (k PolicyKind) Upstream() bool {
	return k == AdminNetworkPolicy || k == BaselineAdminNetworkPolicy || k == ClusterNetworkPolicy
}

// The priorities of fixed tiers.
const (
	// BaselineTierPriority is that of the first tier after Kubernetes NetworkPolicies. The others
	// are for upstream kinds.
	BaselineTierPriority int32 = 253
	// AdminTierPriority is that of ClusterNetworkPolicies of the tier Admin: between platform and
	// application.
	AdminTierPriority int32 = 220
	// AdminNetworkPolicyTierPriority is that of AdminNetworkPolicies: right before Kubernetes
	// NetworkPolicies.
	AdminNetworkPolicyTierPriority int32 = 251
	// UpstreamBaselineTierPriority is that of BaselineAdminNetworkPolicies and of
	// ClusterNetworkPolicies of the tier Baseline: after all others.
	UpstreamBaselineTierPriority int32 = 254
)

// Action is what a rule does with the traffic it matches.
type Action string

// The actions. The deny-all rule of a Kubernetes NetworkPolicy has none.
const (
	Allow  Action = "Allow"
	Drop   Action = "Drop"
	Reject Action = "Reject"
	Pass   Action = "Pass"
)

// Direction is the direction of a rule as seen from the entity it applies to; the values are those
// on the wire.
type Direction string

// The directions.
const (
	Ingress Direction = "In"
	Egress  Direction = "Out"
)

// Protocol is a transport protocol.
type Protocol string

// The protocols.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
	ICMP Protocol = "ICMP"
	IGMP Protocol = "IGMP"
)

// Policy is a policy of any kind.
//
// A Kubernetes NetworkPolicy is given with its podSelector as the only entry of AppliedTo, and with
// rules without Action, Name and AppliedTo.
type Policy struct {
	Kind PolicyKind
	// Namespace is empty for cluster-scoped kinds.
	Namespace string
	Name      string
	// UID identifies the policy in the Engine and names the computed policy. It must not be empty.
	UID        string
	Generation int64

	// Tier is the name of a Tier; empty means "application". Ignored for Kubernetes
	// NetworkPolicies.
	Tier string
	// TierPriority, if set, takes the place of Tier: for policies of upstream kinds, whose tiers
	// are fixed.
	TierPriority *int32
	// Priority orders policies in their tier, the lower the earlier.
	Priority float64

	AppliedTo []AppliedTo
	Ingress   []Rule
	Egress    []Rule
	// PolicyTypes are the directions in which a Kubernetes NetworkPolicy isolates. Empty means
	// Ingress, and Egress if there are egress rules.
	PolicyTypes []Direction
	// OtherTypes are the policyTypes of a Kubernetes NetworkPolicy that are neither, as written:
	// such a policy is refused.
	OtherTypes []string
	// Set says that it is a policy of the set: its peers may have the scope ClusterSet. The Engine
	// does not look at it.
	Set bool
	// Warnings are what its author should know of the policy besides what the Engine finds:
	// reported with its Problem.
	Warnings []FieldError
}

// AppliedTo selects what a policy or a rule applies to.
type AppliedTo struct {
	PodSelector            *Selector
	NamespaceSelector      *Selector
	ExternalEntitySelector *Selector
	NodeSelector           *Selector
	// Group is the name of a ClusterGroup, or in a namespaced policy of a Group of its Namespace.
	Group          string
	ServiceAccount *NamespacedName
	Service        *NamespacedName
}

// Rule is an ingress or egress rule.
type Rule struct {
	Name   string
	Action Action
	// Peers are the sources (ingress) or destinations (egress). Empty means every address, unless
	// NoPeers is set.
	Peers []Peer
	// ToServices takes the place of Peers in an egress rule.
	ToServices []ServicePeer
	// Ports and Protocols together are the traffic matched. Both empty means all traffic.
	Ports         []Port
	Protocols     []RuleProtocol
	L7Protocols   []L7Protocol
	AppliedTo     []AppliedTo
	EnableLogging bool
	// NoPeers makes a rule without Peers match nothing: its peers are given but none is understood.
	NoPeers  bool
	LogLabel string
}

// Peer is one entry of from or to.
type Peer struct {
	PodSelector            *Selector
	NamespaceSelector      *Selector
	ExternalEntitySelector *Selector
	NodeSelector           *Selector
	IPBlock                *IPBlock
	// Namespaces makes the peer relative to the Namespace of the entity the rule applies to.
	Namespaces     *PeerNamespaces
	Group          string
	ServiceAccount *NamespacedName
	// FQDN is a domain name or a pattern with "*", resolved by the enforcer.
	FQDN string
	// Networks are several CIDRs, and DomainNames several names like FQDN: in policies of upstream
	// kinds.
	Networks    []string
	DomainNames []string
	// Scope is "", "Cluster" or "ClusterSet". The Engine does not look at it: what it means is
	// given as further peers, see RemoteGroup.
	Scope string
	// RemoteGroup is the id of a group of other clusters' workloads: it is the key of a label of
	// entities of KindRemote. Nothing else is set with it.
	RemoteGroup string
}

// PeerNamespaces selects Namespaces by their relation to the Namespace of the entity a rule applies
// to. Exactly one field is set.
type PeerNamespaces struct {
	// Match is "Self" or empty.
	Match string
	// SameLabels are the keys of labels that both Namespaces have, with equal values.
	SameLabels []string
}

// ServicePeer is one entry of toServices. An empty Namespace means that of the policy.
type ServicePeer struct {
	Namespace string
	Name      string
	Scope     string
	// RemoteGroup is the id of the group of what serves an exported Service in the clusters of the
	// set, and RemotePort the name that the members have for the ports at which they serve it. The
	// entry means these members at these ports, and neither Name nor Scope count then.
	RemoteGroup, RemotePort string
}

// PortRef is a port number, or a name if Name is not empty.
type PortRef struct {
	Number int32
	Name   string
}

// Port is one entry of a rule's ports. Nil means not given.
type Port struct {
	// Protocol defaults to TCP. Policies of upstream kinds may give a named port without protocol
	// (AnyProtocol).
	Protocol      Protocol
	AnyProtocol   bool
	Port          *PortRef
	EndPort       *int32
	SourcePort    *int32
	SourceEndPort *int32
}

// RuleProtocol is one entry of a rule's protocols; exactly one field is set.
type RuleProtocol struct {
	ICMP *ICMPMatch
	IGMP *IGMPMatch
}

// ICMPMatch matches ICMP of the given type and code; nil matches any.
type ICMPMatch struct {
	Type *int32
	Code *int32
}

// IGMPMatch matches IGMP of the given type and group address.
type IGMPMatch struct {
	Type         *int32
	GroupAddress string
}

// L7Protocol is an application protocol match, passed through to enforcers; exactly one field is
// set.
type L7Protocol struct {
	HTTP *HTTPMatch
	TLS  *TLSMatch
}

// HTTPMatch matches HTTP requests; empty fields match anything.
type HTTPMatch struct {
	Host   string
	Method string
	Path   string
}

// TLSMatch matches the server name of TLS connections.
type TLSMatch struct {
	SNI string
}

// SystemTiers returns the tiers that always exist, in order of priority.
func SystemTiers() []Tier {
	return []Tier{
		{"emergency", 50}, {"securityops", 100}, {"networkops", 150}, {"platform", 200}, {"application", 250}, {"baseline", BaselineTierPriority},
	}
}

// PolicySource makes a policy whenever the Engine computes it: what the policy is made from, which
// the caller holds anyway, then need not be held by the Engine a second time.
type PolicySource interface {
	// Ref says which policy it is.
	Ref() PolicyRef
	// Policy returns the policy, the same each time. It may make it in scratch, where it finds what
	// a source made there before and may use its lists and selectors again. The Engine looks at it
	// until it asks for another one.
	Policy(scratch *Policy) *Policy
}
