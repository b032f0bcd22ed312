// Package plan decides what has to change in a cloud account: computed policies and the observed cloud go in, an ordered list of
// idempotent operations and a status for every policy and VM come out.
//
// It owns the meaning of policies on interfaces (the algebra of rules, tiers, Pass, the native tier), the forming of classes of
// interfaces that share security groups, and the order of changes. It promises, for one Compute call:
//
//   - Exactness: once the plan is done and further calls return empty plans, every interface under control allows exactly the
//     flows that the policies (and, in open directions, its former groups) allow.
//   - No gap, no leak: while policies change, after every single operation the verdict on every flow lies between (before and after) and
//     (before or after), where after is the state that this plan leads to; while they do not, it is that of some mix of the old and the new
//     memberships of its two ends. So a crash at any point is harmless. What has no such order stays as it is and is refused as blocked.
//   - No memory: everything is derived from Input. Planning again from any intermediate state leads to the same end.
//   - Whatever the cloud cannot hold is refused with the numbers, and nothing is touched for it.
//
// A plan may be one of several rounds (Plan.Partial): observe, compute and apply until the plan is empty.
//
// Compute is a pure function: no I/O, no clock, no randomness, no goroutines. It may be called concurrently; it does not change its
// input, and its result shares no memory that anybody writes to.
package plan

import (
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Input is everything that one computation depends on: one account with all its regions.
type Input struct {
	// ClusterID identifies this controller; it marks every object of ours in the cloud. Compute refuses to do anything if it is empty.
	ClusterID string
	// Account is the account, "namespace/name", as in cloud.Scope.
	Account string

	// Policies, AddressGroups and AppliedToGroups are the computed objects for the account's enforcer key.
	Policies        []*v1beta2.NetworkPolicy
	AddressGroups   []*v1beta2.AddressGroup
	AppliedToGroups []*v1beta2.AppliedToGroup

	// Entities maps the ExternalEntities of this account to its VMs. A VM with an entity is selected: its interfaces may be taken
	// over. Several entities may map to the same VM; the policies of all of them apply to it.
	Entities map[EntityRef]VMRef

	// Shared maps ExternalEntities of other accounts to the network of their VMs, if this account sees that network too. Their private
	// addresses denote them there, which is not said of other VMs that are not this account's.
	Shared map[EntityRef]string

	// Tighten holds the UIDs of the policies of which as much is to be enforced as fits, where not all of it does. Others are left
	// out there, or kept as they were last realized.
	Tighten map[string]bool

	// Seal signs and checks the records of former groups; nil if they are neither signed nor checked.
	Seal *Seal
	// Confirmed are the former groups of interfaces as somebody who may say so says, by interface, sorted. They count where the record is not
	// believed.
	Confirmed map[string][]string

	// Failsafe is what VMs with policies are allowed whatever the policies say.
	Failsafe []FailsafeFlow

	// Modes names the VMs that are not simply enforced.
	Modes map[VMRef]Mode

	// Blocked are interfaces that the cloud refuses to change, with its words: they, and the groups of ours that they hold, stay as they are.
	Blocked map[InterfaceKey]string

	// Unmarked are networks on which cloud.TagRevision cannot be written or removed. Every change in their region counts as a change of
	// policies.
	Unmarked map[NetworkKey]bool

	// Dependents says what becomes of interfaces that are not ours and that depend on those that are guarded.
	Dependents DependentsRule

	// Unadvised leaves it at rough numbers which quotas would do for what does not fit. To find the true ones costs some computations more.
	Unadvised bool

	// Regions holds one entry per region of the account that could be observed. VMs of other regions are left alone.
	Regions []Region

	// Stop is asked now and then whether the result is still wanted; nil means that it is. It must be cheap, and it may be called from no other
	// goroutine than that of Compute.
	Stop func() bool

	// recall is what the attempts of one call of Compute know together.
	recall *recall
	// effort is what that call has done so far, and allowance what it may do, if not what is usual.
	effort    *effort
	lacks     lacks
	allowance *allowance
}

// EntityRef names an ExternalEntity.
type EntityRef struct{ Namespace, Name string }

// VMRef names a VM of the account.
type VMRef struct{ Region, ID string }

// InterfaceKey names an interface of the account.
type InterfaceKey struct{ Region, ID string }

// NetworkKey names a network that the account sees.
type NetworkKey struct{ Region, ID string }

// Region is what is known of one region.
type Region struct {
	Snapshot *cloud.Snapshot
	Limits   cloud.Limits
	// Former are the groups that interfaces which hold groups of ours had before, as far as the caller remembers them from a time when all was
	// as planned, sorted, by interface; nil for those that were to have no record. They go before the record in an interface's tags, which
	// is then put right.
	Former map[string][]string
}

// Lowerer is the part of the compilation that depends on the cloud. All methods are pure.
type Lowerer interface {
	// Unsupported says why the cloud cannot hold rules for the service exactly; empty if it can.
	Unsupported(s flow.Service) string
	// Lower returns the rules that allow exactly the traffic, sorted by cloud.Rule.Compare and without duplicates.
	Lower(t flow.Traffic) []cloud.Rule
	// Pack distributes the wanted rules over groups within the quota. held[i] are the rules of the class's i-th group as it is now;
	// wanted rules that are in it stay there if possible. It returns at least one group. A shortage is described by a non-nil
	// *Shortage, and then the groups are nil.
	Pack(wanted []cloud.Rule, held [][]cloud.Rule, q Quota) ([][]cloud.Rule, *Shortage)
	// Fits reports whether one group can hold the rules within the quota.
	Fits(rules []cloud.Rule, q Quota) bool
}

// Quota is what bounds the rules of an interface.
type Quota struct {
	cloud.Limits
	// Lists are the prefix lists of the region by ID, whose size counts.
	Lists map[string]*cloud.PrefixList
}

// Shortage is a quota that a set of rules exceeds.
type Shortage struct {
	Direction cloud.Direction
	// Family is "IPv4" or "IPv6".
	Family string
	// Needed and Available count rules of one interface in that direction and family.
	Needed, Available int
	// RulesPerGroup is the smallest quota "rules per group" that would do, other quotas unchanged.
	RulesPerGroup int
	// AtLeast is true if so much is needed that the exact number was not looked for: Needed and RulesPerGroup are not more than that.
	AtLeast bool
}

// Result is the outcome of one computation.
type Result struct {
	Plan Plan
	// Stopped is true if Input.Stop ended the computation: nothing is known then, and the rest is empty.
	Stopped bool
	// VMs has one entry per selected VM that was observed, sorted by region and ID.
	VMs []VMStatus
	// Policies has one entry per policy of the input, in the order of evaluation.
	Policies []PolicyStatus
	// Refusals are the things that cannot be done, sorted. Each one also shows in the statuses.
	Refusals []Refusal
	// Drift is what others have changed by hand on objects that we control; the plan repairs it.
	Drift []Drift
	// Records tells how far the records of former groups are proven. It is empty without Input.Seal.
	Records Records
	// Protection is which interfaces policies guard now and when all is done; nil where that is not known, because the plan takes too much work.
	Protection *Protection
	// Cuts are what interfaces that are not ours lose, sorted by region, interface and group, where Input.Dependents allows that.
	Cuts []Cut
	// Notes are remarks for people that refuse nothing: interfaces that cannot be controlled, former groups that are gone, ...
	Notes []Note
}

// PolicyRef names a policy and its version.
type PolicyRef struct {
	Kind       v1beta2.NetworkPolicyType
	Namespace  string
	Name       string
	UID        string
	Generation int64
}

// VMStatus says what applies to one VM.
type VMStatus struct {
	VM   VMRef
	Mode Mode
	// Policies are those that select the VM, in the order of evaluation.
	Policies []VMPolicy
	// Interfaces are the interfaces of the VM and their state after the plan, in device order.
	Interfaces []InterfaceStatus
}

// VMPolicy is the state of one policy on one VM.
type VMPolicy struct {
	PolicyRef
	// Realized is true if the cloud already is as the policy wants it for this VM: no operation is pending for its interfaces.
	Realized bool
	// Message says why the policy is refused on this VM; empty while it is realized or being realized.
	Message string
	// Lost are all the flows that the policies allow and the VM does not, because only what fits of the policy is enforced: "ingress tcp 443 from
	// 192.0.2.0/24". The message names the first few. The list is shared by the VMs of a class.
	Lost []string
	// Warning says what differs without being refused, for example Reject realized as Drop.
	Warning string
}

// InterfaceState is our relation to an interface.
type InterfaceState string

// The states of an interface.
const (
	// Untouched: it holds nothing of ours.
	Untouched InterfaceState = "Untouched"
	// Member: it keeps its groups and additionally holds an empty group of ours, by which rules elsewhere refer to it.
	Member InterfaceState = "Member"
	// Guarded: it holds only groups of ours; its former groups are recorded in its tags.
	Guarded InterfaceState = "Guarded"
)

// InterfaceStatus is the state of one interface when the plan is done.
type InterfaceStatus struct {
	ID     string
	State  InterfaceState
	Former []string
	// Network is its network, and Groups are the groups that it holds: the ID of each, or "+" and the name of one that the plan creates.
	// They must not be changed.
	Network string
	Groups  []string
	// Held is true if it holds a group of ours now, before the plan.
	Held bool
	// Unproven says why it stays as it is although nobody knows what it had before; empty if that is known.
	Unproven string
	// Elsewhere says who else holds it by our rules, another controller or account, so that we do nothing to it; empty if nobody does.
	Elsewhere string
}

// PolicyStatus is the state of one policy in the account.
type PolicyStatus struct {
	PolicyRef
	// Realized, Pending and Failed partition the selected VMs that the policy applies to. Each is sorted.
	Realized []VMRef
	Pending  []VMRef
	Failed   []FailedVM
	// Suspended are the selected VMs that it would apply to if their mode let it. Sorted.
	Suspended []VMRef
}

// FailedVM is a VM on which a policy is refused.
type FailedVM struct {
	VM      VMRef
	Message string
}

// Refusal is something that cannot be done as wanted.
type Refusal struct {
	// Policy is the zero value if no single policy is to blame.
	Policy PolicyRef
	// VM is the zero value if a whole network or region is concerned.
	VM VMRef
	// Region and Network say where.
	Region, Network string
	// Direction is empty if both are concerned.
	Direction cloud.Direction
	// Message is a full sentence with the reason, the numbers where a quota is concerned, and what helps.
	Message string
	// Lack has the numbers if a quota is what does not suffice.
	Lack *Lack
	// Kept is true if the interfaces stay as they were last realized, Tightened if what fits of the policy is enforced; else the policy is
	// left out there.
	Kept, Tightened bool
	// Lost are all the flows that the policies allow and the VM does not, where Tightened; see VMPolicy.Lost.
	Lost []string
}

// Drift is a change that somebody else made.
type Drift struct {
	Region string
	// Object is the ID of the interface or group.
	Object  string
	Message string
	// Kept is set if it is left as it is: the mode forbids to write, or it is not ours to decide.
	Kept bool
}

// Note is a remark about an object.
type Note struct {
	Region  string
	Object  string
	Message string
}

// Step is one operation in one region.
type Step struct {
	Scope cloud.Scope
	// Network is the network that the op's group or interface belongs to, as cloud.Op.Resolve needs it.
	Network string
	Op      cloud.Op
	// Policies are those that the step is made for, in the order of evaluation, as far as there are any.
	Policies []PolicyRef
	// Stage numbers the stages of a region's part of the plan, from 0.
	Stage int
	// Urgent is set if nothing may make the step wait: it gives back what the glass was broken for.
	Urgent bool
}

// Subject identifies what the step is about: steps with different subjects do not need one another's order within a stage.
func (s Step) Subject() string {
	if s.Op.Target != "" {
		return s.Op.Target
	}
	return s.Network + "/" + s.Op.Group.Name
}

// Interfaces returns the interfaces that the step changes; nil if it is about something else.
func (s Step) Interfaces() []string {
	if s.Op.Kind == cloud.OpSetInterfaceGroups || s.tagsInterfaces() {
		return s.Op.Subjects()
	}
	return nil
}

// Plan is an ordered list of steps. They are to be applied in this order, and not beyond a failed one; but within one stage of a region,
// steps about different subjects may be applied in any order and at the same time, and regions are independent of each other. So are networks
// of a region that no active peerings connect.
type Plan struct {
	Account string
	Steps   []Step
	// Partial is true if the wanted state is reached only by a further plan, computed on what is observed after this one.
	Partial bool
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Steps) == 0 }

// Summary counts what a plan does.
type Summary struct {
	GroupsCreated int `json:"groupsCreated"`
	GroupsChanged int `json:"groupsChanged"`
	GroupsDeleted int `json:"groupsDeleted"`
	RulesAdded    int `json:"rulesAdded"`
	RulesRemoved  int `json:"rulesRemoved"`
	// RulesReplaced counts rules that are turned into others in place; they count as neither added nor removed.
	RulesReplaced int `json:"rulesReplaced"`
	// Interfaces is the number of interfaces whose groups are set; InterfaceEdits the number of calls for it.
	Interfaces     int `json:"interfaces"`
	InterfaceEdits int `json:"interfaceEdits"`
	// Tagged counts the objects whose tags are set or removed.
	Tagged int `json:"tagged"`
	// Steps is the number of operations. An adapter needs one mutating call for most of them, two for rule changes of both
	// directions and for the creation of a group whose default rules have to go.
	Steps int `json:"steps"`
}
