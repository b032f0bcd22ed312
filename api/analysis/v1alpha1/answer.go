package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Seen says what an answer was made from.
type Seen struct {
	// AsOf is when the objects and clouds were looked at that the answer is about. In a limited
	// answer it is two seconds before the question: what has changed since may be missing.
	AsOf metav1.MicroTime `json:"asOf"`
	// Limited tells that something was left out because the caller may not read the network
	// policies of every Namespace, or the cluster's policies.
	Limited bool `json:"limited,omitempty"`
	// Unread are the regions of clouds, "namespace/name of the account: region", of which nothing
	// is known now. What the security groups do there is not told.
	Unread []string `json:"unread,omitempty"`
}

// End is one end of a flow.
type End struct {
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Node is the Node in whose network a Pod is, and whose policies hold for it.
	Node string `json:"node,omitempty"`
	// Enforcer is the key of the enforcer there: the name of a Node, NAMESPACE/NAME of an
	// ExternalNode, or cloud/NAMESPACE/NAME of an account. Empty: no enforcer.
	Enforcer string `json:"enforcer,omitempty"`
	// Agent is the kind of agent that enforces policies on the host, if one does: Nephele, Antrea
	// or Unknown.
	Agent string `json:"agent,omitempty"`
	// VM is which machine of a cloud it is.
	VM *VM `json:"vm,omitempty"`
	// Title names the end for people.
	Title string `json:"title"`
}

// VM is a machine of a cloud, in the words of the cloud.
type VM struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Region  string `json:"region,omitempty"`
	Network string `json:"network,omitempty"`
}

// Flow is the answer for one pair of addresses.
type Flow struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Backend is the endpoint that the Service chose, and At the same as an end.
	Backend   *Backend  `json:"backend,omitempty"`
	At        *End      `json:"at,omitempty"`
	Verdict   string    `json:"verdict"`
	Wanted    string    `json:"wanted"`
	Path      *Path     `json:"path,omitempty"`
	Egress    *Decision `json:"egress"`
	AtService *Decision `json:"atService,omitempty"`
	Ingress   *Decision `json:"ingress"`
	Points    []Point   `json:"points,omitempty"`
	Balanced  *Balanced `json:"balanced,omitempty"`
	Leaving   *Leaving  `json:"leaving,omitempty"`
}

// Leaving is how a packet leaves the cluster that an Egress applies to. The destination decides
// about the address that it leaves with.
type Leaving struct {
	// Egress is the name of the Egress; of several that apply the oldest counts.
	Egress string `json:"egress"`
	// State is Leaves, or Dropped if no Node has the address now, or Unknown if no condition of the
	// Egress says whether one has.
	State string `json:"state"`
	// Address is what it leaves with; absent if the Egress has none of its family. Node is the one
	// that has it; absent if the status of the Egress does not name it.
	Address string `json:"address,omitempty"`
	Node    string `json:"node,omitempty"`
	// Why is the reason of what is not Leaves.
	Why string `json:"why,omitempty"`
}

// Balanced is how a load balancer hands on a packet that has come to its front end. Cross-zone
// balancing is taken to be on: every interface of the balancer sends to every target.
type Balanced struct {
	// Balancer is its name, Kind what it is.
	Balancer string `json:"balancer"`
	Kind     string `json:"kind"`
	// Unknown are the target groups whose targets are unknown, with the reason.
	Unknown []string         `json:"unknown,omitempty"`
	Targets []BalancedTarget `json:"targets,omitempty"`
}

// BalancedTarget is a target that the balancer may choose.
type BalancedTarget struct {
	// Group is the name of the target group.
	Group string `json:"group"`
	At    End    `json:"at"`
	// Preserved tells that the target sees the client's address, so that this is what a policy on
	// it must allow; else it is the balancer's. It has to be allowed by address: a rule of a
	// security group that names the group of the client does not match.
	Preserved bool `json:"preserved,omitempty"`
	// Traffic is the way of the packet, and Health that of a health check, which comes from the
	// balancer always; absent if there are none.
	Traffic Hop  `json:"traffic"`
	Health  *Hop `json:"health,omitempty"`
	// InUse tells that the balancer sends traffic to it today, as far as it is known: health checks
	// reach it, or no target of its group.
	InUse bool `json:"inUse"`
	// Further tells that it is a load balancer itself, whose targets have to be asked about.
	Further bool `json:"further,omitempty"`
}

// Hop is the way from a balancer to a target.
type Hop struct {
	// From is the address that the target sees; empty if that is not known.
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Port    int32     `json:"port"`
	Verdict string    `json:"verdict"`
	Wanted  string    `json:"wanted"`
	Path    *Path     `json:"path,omitempty"`
	Egress  *Decision `json:"egress"`
	Ingress *Decision `json:"ingress"`
}

// Point is a place on the way of a packet where policies are enforced, or where something is lost
// that policies further on need.
type Point struct {
	// At names the place for people.
	At string `json:"at"`
	// Stage is egress, service, translation or ingress.
	Stage string `json:"stage"`
	// Enforcer is the key of the enforcer there, and By its kind: SecurityGroups, HostAgent,
	// NodeAgent or EveryNode.
	Enforcer string `json:"enforcer,omitempty"`
	By       string `json:"by,omitempty"`
	// State says how far policies are enforced there: Enforced, NotEnforceable, NotEnforced, Untold
	// or Nobody; Why what is known of the reason.
	State string `json:"state,omitempty"`
	Why   string `json:"why,omitempty"`
	// Lost is what does not get further: Source, if rules for the real sender may no longer match.
	Lost string `json:"lost,omitempty"`
	// Otherwise is what the next end decides if that is lost, where that differs.
	Otherwise string `json:"otherwise,omitempty"`
}

// Service is a Service that the packet is sent to.
type Service struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Backends  []Backend `json:"backends,omitempty"`
}

// Backend is an endpoint that a Service may choose.
type Backend struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Address   string `json:"address"`
	Port      int32  `json:"port"`
}

// Decision is what is so at one end.
type Decision struct {
	// Outcome is what happens there today, as far as that is known: Allow, Drop, Reject or Unknown;
	// Native if the groups of a VM decide, and were not read.
	Outcome string `json:"outcome"`
	// NotEnforced is the mode because of which the policies do not decide, and the object that sets
	// it.
	NotEnforced string `json:"notEnforced,omitempty"`
	// Policies are those that decide, or would, and are not enforced as they stand.
	Policies []PolicyState `json:"policies,omitempty"`
	// Differs says why the groups do otherwise than policies that count as enforced: Unreleased,
	// PublicAddress, Balanced or Changed.
	Differs string `json:"differs,omitempty"`
	// IfEnforced is what would be so if everything were enforced as it stands, where that is not
	// what is so.
	IfEnforced *Decision `json:"ifEnforced,omitempty"`
	// Groups is what the security groups of the interface do, where they were read.
	Groups *Groups `json:"groups,omitempty"`
	// Native is what the groups that the interface has of its own do, where they decide and were
	// read.
	Native *Groups `json:"native,omitempty"`
	// Failsafe is the account whose failsafe flows allow it, before any rule.
	Failsafe string `json:"failsafe,omitempty"`
	// HostFailsafe is the host whose agent lets it through, before any rule.
	HostFailsafe string `json:"hostFailsafe,omitempty"`
	// DecidedBy is the rule; without it the default decided: Default says which one.
	DecidedBy *Rule `json:"decidedBy,omitempty"`
	// Default is "isolated", "native", "none" or "groups", or "itself" (the packet goes to its own
	// sender), "ownNode" (it comes to a Pod from its own Node), "machine" (it does not leave the
	// machine), "nobody" (a load balancer has a target that is not there) or "hidden" (the caller
	// may not see what decides, and it counts as open).
	Default string `json:"default,omitempty"`
	// IsolatedBy are the policies that make Drop the default.
	IsolatedBy []Policy `json:"isolatedBy,omitempty"`
	// Passed are the Pass rules on the way, in order.
	Passed []Rule `json:"passed,omitempty"`
	// Uncertain are rules that match or not, depending on what a name or Service stands for.
	Uncertain []Rule `json:"uncertain,omitempty"`
	// Possible are the outcomes that there may be if it is Unknown.
	Possible []string `json:"possible,omitempty"`
}

// Policy names a policy.
type Policy struct {
	// Type is the kind, in the words of controlplane.antrea.io.
	Type      string `json:"type"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Hidden tells that the caller may not see it, and only its type is told.
	Hidden bool `json:"hidden,omitempty"`
	// Cluster is the member of the set that has it, on a map of the set.
	Cluster string `json:"cluster,omitempty"`
}

// PolicyState is a policy that is not enforced as it stands.
type PolicyState struct {
	Policy `json:",inline"`
	// State is Refused, Kept, Pending or Suspended.
	State string `json:"state"`
	// Why is the controller's word for it; it may be empty.
	Why string `json:"why,omitempty"`
}

// Rule is a rule of a policy.
type Rule struct {
	Policy Policy `json:"policy"`
	// Direction is In or Out.
	Direction string `json:"direction"`
	Name      string `json:"name,omitempty"`
	// Index is the place of the rule in spec.ingress or spec.egress.
	Index  int32  `json:"index"`
	Action string `json:"action,omitempty"`
	// TierPriority and Priority are absent for a Kubernetes NetworkPolicy, which has neither.
	TierPriority int32   `json:"tierPriority,omitempty"`
	Priority     float64 `json:"priority,omitempty"`
	// L7Protocols tells that the rule lets through only what its l7Protocols match, of which
	// nothing is known here.
	L7Protocols bool `json:"l7Protocols,omitempty"`
	// Through are the entities by which the rule matches, if not by the end itself: others with the
	// same address.
	Through []string `json:"through,omitempty"`
	// DependsOn are, for an uncertain rule, the names and Services that the destination may be.
	DependsOn []string `json:"dependsOn,omitempty"`
}

// Group is a security group.
type Group struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Ours tells that it is one of Nephele's.
	Ours bool `json:"ours,omitempty"`
}

// Groups is what the security groups of an interface do with the packet.
type Groups struct {
	Interface string `json:"interface"`
	// Outcome is Allow, Drop, or Unknown if it depends on what cannot be read.
	Outcome string `json:"outcome"`
	// Group and Rule are what lets it through, or might; absent if nothing does.
	Group *Group `json:"group,omitempty"`
	Rule  string `json:"rule,omitempty"`
	// Held are all groups of the interface.
	Held []Group `json:"held,omitempty"`
}

// Path is the way of a packet through clouds.
type Path struct {
	Way string `json:"way"`
	// FromNetwork and ToNetwork are the networks of the two ends, as far as they are in one.
	FromNetwork string `json:"fromNetwork,omitempty"`
	ToNetwork   string `json:"toNetwork,omitempty"`
	// SeenSource is the address that the destination sees, if it is not the one that the packet has
	// at its source.
	SeenSource string `json:"seenSource,omitempty"`
	// SentTo is the address that the source sends to, if a gateway translates it.
	SentTo string `json:"sentTo,omitempty"`
	// StoppedBy is the network ACL that does not let the packet or its answer through.
	StoppedBy *ACLEntry `json:"stoppedBy,omitempty"`
	// DoubtedBy is the one that may stop it: what its entry is about is not known.
	DoubtedBy *ACLEntry `json:"doubtedBy,omitempty"`
	// Hops are the filters of subnets on the way whose entries have names, in order, with the
	// entry that decides.
	Hops    []ACLEntry `json:"hops,omitempty"`
	Remarks []string   `json:"remarks,omitempty"`
}

// ACLEntry is an entry of a network ACL, or of the network security group of a subnet, that
// decides.
type ACLEntry struct {
	ACL    string `json:"acl"`
	Subnet string `json:"subnet"`
	// Entry is its number; 0 for the end of the ACL, which denies what no entry allows.
	Entry int32 `json:"entry"`
	// Name is what its owner calls the entry; empty where entries have numbers only.
	Name    string `json:"name,omitempty"`
	Egress  bool   `json:"egress"`
	Allowed bool   `json:"allowed,omitempty"`
	// Answer tells that it stops what comes back.
	Answer bool `json:"answer,omitempty"`
}
