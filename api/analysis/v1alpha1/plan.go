package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PlanReview asks what would change if manifests were applied to the cluster, or objects deleted;
// with neither, what is still to be done with the cluster as it is.
// +kubebuilder:object:root=true
type PlanReview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PlanReviewSpec   `json:"spec"`
	Status PlanReviewStatus `json:"status,omitempty"`
}

// PlanReviewSpec is the question. Nothing of it is stored or applied.
type PlanReviewSpec struct {
	// Manifests are objects as YAML or JSON, of which a text may hold several documents. They stand
	// in the place of the objects of their names, as applying them does. See docs/ask.md for
	// the kinds that are taken, and for how much.
	Manifests string `json:"manifests,omitempty"`
	// Delete are objects that are taken away.
	Delete []ObjectReference `json:"delete,omitempty"`
	// Account, "namespace/name", is the only cloud account to plan for; empty means all.
	Account string `json:"account,omitempty"`
	// Staged takes staged policies as if they were enforced.
	Staged bool `json:"staged,omitempty"`
	// Map adds the map to the answer: what can reach what, now and then.
	Map bool `json:"map,omitempty"`
	// FlowsSince adds what would become of the connections that agents have seen since.
	FlowsSince *metav1.MicroTime `json:"flowsSince,omitempty"`
}

// ObjectReference names an object.
type ObjectReference struct {
	// Group is the API group of the kind.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// PlanReviewStatus is the answer, what it was made from, and what went wrong with the manifests.
type PlanReviewStatus struct {
	Seen `json:",inline"`

	// Errors say what is wrong with the manifests. If there are any, nothing else is told.
	Errors     []ManifestError `json:"errors,omitempty"`
	PlanAnswer `json:",inline"`
	// Notes are what else is to be said, about no account.
	Notes []string `json:"notes,omitempty"`
	// Map is there if it was asked for.
	Map *ReachMap `json:"map,omitempty"`
}

// PlanAnswer is what "nephele plan -o json" prints.
type PlanAnswer struct {
	// Accounts are the cloud accounts, sorted. A caller who does not see everything is told of
	// none.
	Accounts []AccountPlan `json:"accounts"`
	// Incomplete says what a snapshot does not tell; only where a command reads one.
	Incomplete []string `json:"incomplete,omitempty"`
	// Warnings are about what looks like a mistake and belongs to no account that was read.
	// WarningReasons are their reasons, in the same order.
	Warnings       []string `json:"warnings"`
	WarningReasons []string `json:"warningReasons"`
	// Flows is what would become of connections that agents have seen, if that was asked for.
	Flows *FlowEffects `json:"flows,omitempty"`
}

// The reasons of ManifestErrors.
const (
	// ErrorUnreadable: a document is no object, or its kind has no such field or type.
	ErrorUnreadable = "Unreadable"
	// ErrorInvalid: the schema of the kind, or what the webhooks check, refuses it.
	ErrorInvalid = "Invalid"
	// ErrorForbidden: the caller may not write the object.
	ErrorForbidden = "Forbidden"
	// ErrorKindNotTaken: objects of the kind are not planned with here.
	ErrorKindNotTaken = "KindNotTaken"
	// ErrorTooMuch: there are more documents than are taken.
	ErrorTooMuch = "TooMuch"
)

// ManifestError is what is wrong with a document of the manifests, or with something to delete.
type ManifestError struct {
	// Reason is one of the constants above; Code the status with which an API server refuses such
	// an object.
	Reason string `json:"reason"`
	Code   int32  `json:"code"`
	// Document counts the documents of the text from 1, those that hold nothing included, and Line
	// the lines of the text. 0 is not known, or none.
	Document int32 `json:"document,omitempty"`
	Line     int32 `json:"line,omitempty"`
	// Object is what it is about, as far as that can be read.
	Object *ObjectReference `json:"object,omitempty"`
	// Field is a path such as spec.ingress[0].action; empty if no single field is wrong.
	Field string `json:"field,omitempty"`
	// Message says it for people, without the place.
	Message string `json:"message"`
}

// AccountPlan is the answer for one account.
type AccountPlan struct {
	Account string `json:"account"`
	// Error says why the account could not be read; the rest is empty then.
	Error string `json:"error,omitempty"`
	// Unread are the regions that could not be read, and why. They are left as they are.
	Unread []UnreadRegion `json:"unread,omitempty"`
	Plan   PlanDocument   `json:"plan"`
	// Further are the plans that follow when this one is done.
	Further []PlanDocument `json:"further"`
	// TagsOnly is true if all that is to be done is to write tags.
	TagsOnly bool `json:"tagsOnly,omitempty"`
	// Wave is what is done first, if the account bounds what is done at once.
	Wave *PlanWave `json:"wave,omitempty"`
	// Brake is set if the controller holds some of it until it is confirmed.
	Brake *PlanBrake `json:"brake,omitempty"`
	// Planned sums up what enforcing the VMs in mode plan would do.
	Planned *PlannedVMs `json:"planned,omitempty"`
	// Failsafe are the flows that VMs with policies are allowed whatever the policies say.
	Failsafe []FailsafeFlow `json:"failsafe"`
	// Quotas and Reachability compare the cloud as it is with what it is when nothing is left to
	// do. ReachabilityTold says the latter in words, with less to read.
	Quotas           []PlanQuota   `json:"quotas"`
	Reachability     []ReachChange `json:"reachability"`
	ReachabilityTold []ToldChange  `json:"reachabilityTold,omitempty"`

	// Agents are the VMs that selectors hand to the agents in them.
	Agents   []PlannedAgent  `json:"agents,omitempty"`
	Policies []PlannedPolicy `json:"policies"`
	Refusals []PlanRefusal   `json:"refusals"`
	// Remedies are what makes room for what is refused for want of a quota.
	Remedies []Remedy   `json:"remedies,omitempty"`
	Warnings []PlanNote `json:"warnings"`
	Drift    []PlanNote `json:"drift"`
	// Cuts are what interfaces lose that are not under control, where the account permits that.
	Cuts  []PlanNote `json:"cuts,omitempty"`
	Notes []PlanNote `json:"notes"`
	// More says how much is left out of lists that are too long, by their names.
	More map[string]int32 `json:"more,omitempty"`
}

// UnreadRegion is a region that could not be read.
type UnreadRegion struct {
	Region  string `json:"region"`
	Message string `json:"message"`
}

// PlanDocument is a plan: operations in order.
type PlanDocument struct {
	Account string      `json:"account"`
	Partial bool        `json:"partial,omitempty"`
	Summary PlanSummary `json:"summary"`
	Steps   []PlanStep  `json:"steps"`
	// GroupNames are what people call the groups that the steps name by id.
	GroupNames map[string]string `json:"groupNames,omitempty"`
}

// PlanSummary counts what a plan does.
type PlanSummary struct {
	GroupsCreated  int32 `json:"groupsCreated"`
	GroupsChanged  int32 `json:"groupsChanged"`
	GroupsDeleted  int32 `json:"groupsDeleted"`
	RulesAdded     int32 `json:"rulesAdded"`
	RulesRemoved   int32 `json:"rulesRemoved"`
	RulesReplaced  int32 `json:"rulesReplaced"`
	Interfaces     int32 `json:"interfaces"`
	InterfaceEdits int32 `json:"interfaceEdits"`
	Tagged         int32 `json:"tagged"`
	Steps          int32 `json:"steps"`
}

// PlanStep is an operation: CreateGroup, DeleteGroup, AddRules, RemoveRules, ReplaceRules,
// SetRules, SetInterfaceGroups, Tag or Untag.
type PlanStep struct {
	Region  string `json:"region"`
	Network string `json:"network,omitempty"`
	Kind    string `json:"kind"`
	// Target is the ID of what is changed; empty for a group that the plan creates, which Name
	// identifies within the network.
	Target string `json:"target,omitempty"`
	Name   string `json:"name,omitempty"`
	// NameKnownWhenApplied says that Name only stands for the name that the new group will get,
	// here and wherever the plan names the group.
	NameKnownWhenApplied bool `json:"nameKnownWhenApplied,omitempty"`
	// Others are further interfaces whose tags are changed alike.
	Others []string `json:"others,omitempty"`
	// VMs are the VMs of the interfaces Target and Others, by name.
	VMs   []string   `json:"vms,omitempty"`
	Rules []PlanRule `json:"rules,omitempty"`
	// Replaced has, of ReplaceRules, the former form of each of Rules.
	Replaced []PlanRule `json:"replaced,omitempty"`
	// Removed are, of SetRules, the rules that go by the write that brings Rules.
	Removed []PlanRule `json:"removed,omitempty"`
	// GroupsBefore and Groups are, of SetInterfaceGroups, all that the interface holds before and
	// after, by ID, new groups by name.
	GroupsBefore []string `json:"groupsBefore,omitempty"`
	Groups       []string `json:"groups,omitempty"`
	// Tags are those that are set, or removed.
	Tags map[string]string `json:"tags,omitempty"`
	// Reason is why, in a few words, and Policies are what the operation is made for, as "KIND
	// NAMESPACE/NAME".
	Reason   string   `json:"reason,omitempty"`
	Policies []string `json:"policies,omitempty"`
}

// PlanRule is a rule of a security group.
type PlanRule struct {
	// Direction is Ingress or Egress.
	Direction string `json:"direction"`
	// Protocol is the number of IANA, -1 for all. From and To are ports, or of ICMP type and code.
	Protocol int32 `json:"protocol"`
	From     int32 `json:"from"`
	To       int32 `json:"to"`
	// Peer is a block of addresses, the ID of a group or prefix list, or "group NAME" for a new
	// group.
	Peer string `json:"peer"`
	// Failsafe is true if a failsafe flow is what the rule allows.
	Failsafe bool `json:"failsafe,omitempty"`
	// Text says it for people.
	Text string `json:"text"`
}

// PlanWave is the beginning of a plan.
type PlanWave struct {
	MaxPerWave int32        `json:"maxPerWave"`
	Plan       PlanDocument `json:"plan"`
}

// PlanBrake says that, or when, the controller holds a change until it is confirmed.
type PlanBrake struct {
	// Message says it for people.
	Message string `json:"message"`
	// Hash confirms the change, and Command is how. Confirmed is true if the account has that
	// confirmation.
	Hash      string `json:"hash"`
	Command   string `json:"command"`
	Confirmed bool   `json:"confirmed"`
	// OnceEnforced is true if nothing waits before VMs in mode plan are enforced.
	OnceEnforced bool `json:"onceEnforced"`
	// Percent and Interfaces are the account's spec.brake, with its defaults.
	Percent    int32 `json:"percent"`
	Interfaces int32 `json:"interfaces"`
	// Released of Controlled interfaces would be given back, and Guarded of All interfaces of VMs
	// newly taken under control. What does not wait counts as 0.
	Released   int32 `json:"released"`
	Controlled int32 `json:"controlled"`
	Guarded    int32 `json:"guarded"`
	All        int32 `json:"all"`
}

// PlannedVMs is what enforcing the VMs in mode plan would do.
type PlannedVMs struct {
	VMs     int32  `json:"vms"`
	Message string `json:"message"`
}

// FailsafeFlow is a flow that is always allowed.
type FailsafeFlow struct {
	Direction string `json:"direction"`
	// Protocol is -1 for all; From and To are ports, or 0 and 65535.
	Protocol int32    `json:"protocol"`
	From     int32    `json:"from"`
	To       int32    `json:"to"`
	Peers    []string `json:"peers"`
}

// PlanQuota says how full a limit of the cloud is.
type PlanQuota struct {
	Region string `json:"region"`
	// Name is what is counted, for people.
	Name string `json:"name"`
	// Before and After count what is used; where a limit holds for each of many objects, at the one
	// that uses most of it.
	Before int32 `json:"before"`
	After  int32 `json:"after"`
	Limit  int32 `json:"limit"`
	// Where is the object that uses most of the limit afterwards; empty for a limit of the whole
	// region.
	Where string `json:"where,omitempty"`
}

// ReachChange is a set of flows that open, or that close: all that the packets, the sources and the
// destinations make together.
type ReachChange struct {
	Region string `json:"region"`
	Opens  bool   `json:"opens"`
	// Packets are what the flows consist of.
	Packets ReachPackets `json:"packets"`
	From    ChangeEnd    `json:"from"`
	To      ChangeEnd    `json:"to"`
}

// ReachPackets is a set of packets.
type ReachPackets struct {
	// Text says it in words, for example "tcp 443" or "everything but udp 53".
	Text string `json:"text"`
	// Except means all packets that are possible between the two ends but those in Ranges.
	Except bool `json:"except,omitempty"`
	// Ranges are disjoint and sorted.
	Ranges []ReachRange `json:"ranges"`
}

// ChangeEnd is one end of flows: one of VMs, Addresses and Unseen.
type ChangeEnd struct {
	// VMs are VMs by name (by ID if they have none, or share it), sorted. An interface of a VM with
	// several is told as VM/interface, one without a VM by its ID.
	VMs []string `json:"vms,omitempty"`
	// Addresses are ranges of addresses. The addresses of interfaces in sight do not count, even
	// where they lie in a range; Rest is true if some do.
	Addresses []string `json:"addresses,omitempty"`
	Rest      bool     `json:"rest,omitempty"`
	// Unseen are peers whose addresses the account does not show: groups of other accounts, prefix
	// lists without their entries.
	Unseen []string `json:"unseen,omitempty"`
}

// ToldChange says in a sentence what opens or closes.
type ToldChange struct {
	Region string `json:"region"`
	Opens  bool   `json:"opens"`
	Text   string `json:"text"`
	// All names all that Text counts; empty if that names all.
	All string `json:"all,omitempty"`
}

// PlannedPolicy counts the VMs, native services and interfaces that a policy applies to, by what
// becomes of it there: each is in one of Realized, Pending, Refused and Released.
type PlannedPolicy struct {
	// Policy is "KIND NAMESPACE/NAME".
	Policy string `json:"policy"`
	// VMs is their sum, and Others counts the ones among them that are no VMs.
	VMs    int32 `json:"vms"`
	Others int32 `json:"others,omitempty"`
	// Realized is where nothing is left to do, Pending where this plan or a further one realizes
	// it.
	Realized int32 `json:"realized"`
	Pending  int32 `json:"pending"`
	// Refused is where nothing new of it is enforced.
	Refused int32 `json:"refused"`
	// Released are VMs that are released, where no policy is enforced.
	Released int32 `json:"released"`
	// PlanMode counts the others that are in mode plan, where nothing is done.
	PlanMode int32 `json:"planMode"`
	// Agents counts the realized and pending ones that are left to the agents in them.
	Agents int32 `json:"agents,omitempty"`
}

// PlannedAgent is a VM that a selector hands to the agent in it.
type PlannedAgent struct {
	// VM is REGION/ID.
	VM     string `json:"vm"`
	VMName string `json:"vmName,omitempty"`
	// ExternalNode is that of the agent, NAMESPACE/NAME.
	ExternalNode string `json:"externalNode"`
	// Enforces is true if the agent enforces in place of the cloud. Message says why.
	Enforces bool   `json:"enforces"`
	Message  string `json:"message"`
	// LetsIn are the directions in which the cloud then lets in whatever the agent decides.
	LetsIn []string `json:"letsIn"`
	// Policies are those at the agent.
	Policies []AgentPolicy `json:"policies"`
}

// AgentPolicy is a policy at an agent.
type AgentPolicy struct {
	Policy string `json:"policy"`
	// Ingress and Egress count its rules that apply to the host.
	Ingress int32 `json:"ingress"`
	Egress  int32 `json:"egress"`
	// Refused is why the agent does not enforce it.
	Refused string `json:"refused,omitempty"`
}

// PlanRefusal is what cannot be done.
type PlanRefusal struct {
	Policy string `json:"policy,omitempty"`
	// VM is REGION/ID, and VMName what people call it.
	VM        string `json:"vm,omitempty"`
	VMName    string `json:"vmName,omitempty"`
	Region    string `json:"region,omitempty"`
	Network   string `json:"network,omitempty"`
	Direction string `json:"direction,omitempty"`
	// Reason is the controller's word for it; it may be empty.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Lack has the numbers if a quota is what does not suffice.
	Lack *Lack `json:"lack,omitempty"`
	// Kept says that what was last realized stays in force there.
	Kept bool `json:"kept"`
}

// Lack has the numbers where a quota does not suffice.
type Lack struct {
	// Quota is as in spec.awsConfig.quotas or spec.azureConfig.quotas of the account, or a limit of
	// Azure that nobody raises: securityRulesPerNetworkSecurityGroup,
	// sourcePrefixesPerNetworkSecurityGroup, destinationPrefixesPerNetworkSecurityGroup or
	// applicationSecurityGroupsPerNetworkSecurityGroup.
	Quota string `json:"quota"`
	// Direction and Family say which rules of an interface are meant; they are empty where groups
	// are counted.
	Direction string `json:"direction,omitempty"`
	Family    string `json:"family,omitempty"`
	// Needed and Available count rules of one interface, or groups of the region. With AtLeast the
	// exact number was not looked for: Needed is not less than this.
	Needed    int32 `json:"needed"`
	Available int32 `json:"available"`
	// WouldDo is the smallest quota with which nothing would be lacking, of groups of the region; 0
	// for all other quotas.
	WouldDo int32 `json:"wouldDo,omitempty"`
	AtLeast bool  `json:"atLeast,omitempty"`
}

// Remedy says which quota to raise, and to what if that is known.
type Remedy struct {
	Quota string `json:"quota"`
	// WouldDo is the smallest quota that would do, of groups of the region; 0 for all others.
	WouldDo int32  `json:"wouldDo,omitempty"`
	Message string `json:"message"`
}

// PlanNote is a remark about an object: an interface, a group or a VM.
type PlanNote struct {
	Region string `json:"region,omitempty"`
	Object string `json:"object,omitempty"`
	// Name is what people call the object, or the VM of an interface.
	Name string `json:"name,omitempty"`
	// Policy is set where the remark is about one.
	Policy string `json:"policy,omitempty"`
	// Reason is set for warnings.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}
