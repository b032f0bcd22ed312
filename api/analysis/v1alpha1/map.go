package v1alpha1

// ReachMap says which classes of machines can reach which. The machines of a class have the same
// Namespace, network, policies and reach. Machines that the caller may not see are not on it.
type ReachMap struct {
	Nodes []MapNode `json:"nodes"`
	Edges []MapEdge `json:"edges"`
	// Total counts all classes. Edges are only between the classes in Nodes: the largest classes,
	// if there are more than the answer holds.
	Total int32 `json:"total"`
	// MoreEdges is how many edges are left out, of the order in which they stand.
	MoreEdges int32 `json:"moreEdges,omitempty"`
}

// The kinds of MapNodes. Machines and Pods of one class are of one kind.
const (
	NodeVM         = "VM"
	NodePod        = "Pod"
	NodeNode       = "Node"
	NodeExternal   = "ExternalEntity"
	NodeUnselected = "Unselected"
	NodeAddresses  = "Addresses"
	NodeService    = "CloudNativeService"
	NodeInterface  = "NetworkInterface"
)

// MapNode is a class of machines that are alike, or addresses that nobody known has.
type MapNode struct {
	// Key names it in the edges, and in the spec of a ReachReview that asks for its members. It
	// stays while what it is made of stays.
	Key string `json:"key"`
	// Label is what to call it.
	Label string `json:"label"`
	// Kind is one of the constants above: Unselected is a machine in a cloud that no selector has
	// chosen, Addresses belong to nobody known.
	Kind string `json:"kind"`
	// Service is the kind of native services, such as RDSInstance.
	Service string `json:"service,omitempty"`
	// Count is how many machines or Pods it has; 0 for addresses.
	Count int32 `json:"count,omitempty"`
	// Role and Tier are the values of labels and tags of that kind that all of it have.
	Role      string `json:"role,omitempty"`
	Tier      string `json:"tier,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Account   string `json:"account,omitempty"`
	Region    string `json:"region,omitempty"`
	Network   string `json:"network,omitempty"`
	// Cluster is the member of the set that has it, on a map of the set.
	Cluster string `json:"cluster,omitempty"`
	// NotEnforced is the mode because of which policies do not decide there, and the object that
	// sets it.
	NotEnforced string `json:"notEnforced,omitempty"`
	// Isolated tells in which directions policies decide everything: In, Out.
	Isolated []string `json:"isolated,omitempty"`
	// Policies are those that apply to it, as they may be seen.
	Policies []Policy `json:"policies,omitempty"`
	// Members are the first of it by name; a ReachReview with spec.members lists all. On a map of
	// the set they are all.
	Members []string `json:"members,omitempty"`
	// Addresses are there for the kind Addresses; with Rest they leave out the addresses of
	// machines that are known.
	Addresses []string `json:"addresses,omitempty"`
	Rest      bool     `json:"rest,omitempty"`
}

// The changes of MapEdges.
const (
	ChangeOpens  = "Opens"
	ChangeCloses = "Closes"
)

// What decides a MapEdge.
const (
	ByPolicies = "Policies"
	// ByGroups: the machines' own security groups, at one end at least.
	ByGroups = "Groups"
	// ByNobody: nothing stands in the way.
	ByNobody = "Nobody"
	// ByUnknown: what decides is not known, as a domain name or groups that were not read.
	ByUnknown = "Unknown"
)

// MapEdge is traffic from every machine of a class to every machine of another, or of the same.
type MapEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Verdict is Allow, Native, Unknown, Drop or Reject.
	Verdict string `json:"verdict"`
	By      string `json:"by"`
	// Traffic is Ranges in words; with Except it is all but these.
	Traffic string       `json:"traffic"`
	Except  bool         `json:"except,omitempty"`
	Ranges  []ReachRange `json:"ranges,omitempty"`
	// Change is Opens for what is so only with the manifests, Closes for what is so only without
	// them, and empty for what is so with and without.
	Change string `json:"change,omitempty"`
	// Policies are those that decide, as they may be seen.
	Policies []Policy `json:"policies,omitempty"`
}
