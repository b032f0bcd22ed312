package reason

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Reason says why something is not as wanted, or what is to be known about it, as a value. Nil is
// no reason. Package words says it in a sentence.
type Reason struct {
	Code Code
	// Objects are what it is about, and Numbers what is counted, in the order that the code tells.
	Objects []string
	Numbers []int
	// Quoted are the words of somebody else, of the cloud most of all.
	Quoted string
	// Lack has the numbers of a quota that does not suffice.
	Lack *Lack
	// Flow is what would be open or cut.
	Flow *Flow
	// Because is the reason behind it.
	Because *Reason
}

// Flow is what one end of some flows sees.
type Flow struct {
	Direction cloud.Direction
	Service   flow.Service
	Addrs     addrset.Set
}

// Why returns a reason about some objects.
func Why(code Code, objects ...string) *Reason { return &Reason{Code: code, Objects: objects} }

// From returns the reason with the one behind it.
func (r *Reason) From(because *Reason) *Reason {
	r.Because = because
	return r
}

// Counting returns the reason with its numbers.
func (r *Reason) Counting(numbers ...int) *Reason {
	r.Numbers = numbers
	return r
}

// Quoting returns the reason with the words of somebody else.
func (r *Reason) Quoting(text string) *Reason {
	r.Quoted = text
	return r
}

// Shortage returns the quota that does not suffice, if that is what is behind a reason.
func (r *Reason) Shortage() *Lack {
	for ; r != nil; r = r.Because {
		if r.Lack != nil {
			return r.Lack
		}
	}
	return nil
}

// Direction returns the direction that a reason, or one behind it, is about: that of the rules for
// which a quota does not suffice, or of the flow that would be open or cut. It is empty if both are
// concerned, or none is.
func (r *Reason) Direction() cloud.Direction {
	for ; r != nil; r = r.Because {
		if r.Lack != nil {
			return cloud.Direction(r.Lack.Direction)
		}
		if r.Flow != nil {
			return r.Flow.Direction
		}
	}
	return ""
}

// Is reports whether a reason, or one behind it, has a code.
func (r *Reason) Is(code Code) bool {
	for ; r != nil; r = r.Because {
		if r.Code == code {
			return true
		}
	}
	return false
}

// Same reports whether two reasons say the same.
func (r *Reason) Same(o *Reason) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Code == o.Code && slices.Equal(r.Objects, o.Objects) && slices.Equal(r.Numbers, o.Numbers) && r.Quoted == o.Quoted &&
		r.Lack.same(o.Lack) && r.Flow.same(o.Flow) && r.Because.Same(o.Because)
}

func (l *Lack) same(o *Lack) bool { return l == o || l != nil && o != nil && *l == *o }

func (f *Flow) same(o *Flow) bool {
	return f == o || f != nil && o != nil && f.Direction == o.Direction && f.Service == o.Service && f.Addrs.Equal(o.Addrs)
}

// The quotas of AWS that a Lack can be about, by the names that spec.awsConfig.quotas of an account
// has for them.
const (
	QuotaRulesPerGroup      = "rulesPerGroup"
	QuotaGroupsPerInterface = "groupsPerInterface"
	QuotaGroupsPerRegion    = "groupsPerRegion"
)

// The limits of Azure that a Lack can be about. Only the first is a quota, by the name that
// spec.azureConfig.quotas of an account has for it; the others hold for one network security group,
// and Azure does not raise them.
const (
	QuotaApplicationGroups = "applicationSecurityGroups"

	LimitSecurityRules     = "securityRulesPerNetworkSecurityGroup"
	LimitSources           = "sourcePrefixesPerNetworkSecurityGroup"
	LimitDestinations      = "destinationPrefixesPerNetworkSecurityGroup"
	LimitApplicationGroups = "applicationSecurityGroupsPerNetworkSecurityGroup"
)

// Lack is a quota that does not suffice, in numbers.
type Lack struct {
	// Quota names the quota.
	Quota string `json:"quota"`
	// Direction and Family say which rules of an interface are meant; they are empty where groups
	// are counted.
	Direction string `json:"direction,omitempty"`
	Family    string `json:"family,omitempty"`
	// Needed and Available count rules of one interface, or groups of the region.
	Needed    int `json:"needed"`
	Available int `json:"available"`
	// WouldDo is the smallest quota with which nothing would be lacking, of groups of the region; 0
	// for all other quotas.
	WouldDo int `json:"wouldDo,omitempty"`
	// AtLeast is true if the exact number was not looked for: Needed is not less than this.
	AtLeast bool `json:"atLeast,omitempty"`
	// Limits are the quotas that count.
	Limits cloud.Limits `json:"-"`
	// Whole is set if the number of rules fits, but a group has to hold prefix lists whole.
	Whole bool `json:"-"`
}

// Code is the kind of a reason.
type Code string

// The codes. What a comment names are the objects, and numbers after "counts".
const (
	// Why a policy cannot be expressed.
	InRule           Code = "InRule"           // name of the rule or "", its direction; counts its index, below 0 for none; Because is what is wrong with it
	PeerDomainName   Code = "PeerDomainName"   // the name
	PeerService      Code = "PeerService"      // namespace, name
	PeerLabelSet     Code = "PeerLabelSet"     //
	Layer7           Code = "Layer7"           //
	BadAddress       Code = "BadAddress"       // counts the bytes
	BadPrefixLength  Code = "BadPrefixLength"  // the address; counts the length
	SourcePort       Code = "SourcePort"       // counts the port
	NamedPortOfPeer  Code = "NamedPortOfPeer"  // the name
	ServiceUnguarded Code = "ServiceUnguarded" // the entity; Quoted is why its groups cannot be set
	// InterfaceUnguarded is the same of an interface.
	InterfaceUnguarded Code = "InterfaceUnguarded"
	NamedPortVaries    Code = "NamedPortVaries"  // the name; counts how many numbers it may mean
	IGMPDetails        Code = "IGMPDetails"      //
	BadPortRange       Code = "BadPortRange"     // counts the first and the last port
	UnknownProtocol    Code = "UnknownProtocol"  // the protocol
	Unsupported        Code = "Unsupported"      // Quoted is what the cloud cannot do
	NamedPortUnknown   Code = "NamedPortUnknown" // the name
	GroupUnknown       Code = "GroupUnknown"     // the address group

	// Why an interface cannot be controlled.
	ModePlanned     Code = "ModePlanned"     // the VM
	ModeBraked      Code = "ModeBraked"      // the VM
	ModeReleased    Code = "ModeReleased"    // the VM, the mode
	CloudRefuses    Code = "CloudRefuses"    // the interface; Quoted is what the cloud says
	NetworkClaimed  Code = "NetworkClaimed"  // the network, the other controller
	HeldElsewhere   Code = "HeldElsewhere"   // the interface, the other controller, its account
	OfService       Code = "OfService"       // the interface
	Untouchable     Code = "Untouchable"     // the interface; Quoted is why
	TooManyTags     Code = "TooManyTags"     // the interface; counts tags needed, there, and at most
	RecordGone      Code = "RecordGone"      // the interface; Because is what is wrong with the annotation
	RecordUnsigned  Code = "RecordUnsigned"  // the same
	ConfirmedGone   Code = "ConfirmedGone"   // the group that the annotation names
	ConfirmedAbroad Code = "ConfirmedAbroad" // the same
	ConfirmedOurs   Code = "ConfirmedOurs"   // the same

	// Why an interface is not taken over, or stays as it is.
	ReferredAbroad  Code = "ReferredAbroad"  // network, account, group, peering, interface
	DependentLoses  Code = "DependentLoses"  // group with the rule, dependent, its VM or "", group that the rule names, interface; Because is why the dependent is not ours
	NotSelected     Code = "NotSelected"     //
	FollowNoRoom    Code = "FollowNoRoom"    // group; counts its own rules, the rules of ours, the quota
	TakeOverShort   Code = "TakeOverShort"   // the interface; Because is the shortage
	RulesShort      Code = "RulesShort"      // Lack has the numbers
	GroupsShort     Code = "GroupsShort"     // the region; counts groups of ours, others, room; Lack has the rest
	WaitsBetween    Code = "WaitsBetween"    // the interface; Because is why the state in between does not fit
	InterfaceStays  Code = "InterfaceStays"  // the interface; Because is why
	Kept            Code = "Kept"            // Because is why a policy is left out that stays in force as it was
	NoInterface     Code = "NoInterface"     //
	NoClusterID     Code = "NoClusterID"     //
	TooMuchWork     Code = "TooMuchWork"     //
	TooManyKinds    Code = "TooManyKinds"    // whose policies; counts the kinds of VMs that they tell apart
	PlannerFault    Code = "PlannerFault"    // Quoted is what the planner panicked with
	OrderOpposite   Code = "OrderOpposite"   //
	OrderLeak       Code = "OrderLeak"       // the interfaces whose rules would leak; Flow is what
	OrderGap        Code = "OrderGap"        // the interfaces that would miss a flow; Flow is what
	OrderInterface  Code = "OrderInterface"  // counts groups needed and the quota
	OrderRules      Code = "OrderRules"      // the group; counts rules needed and the quota
	OrderRegion     Code = "OrderRegion"     // counts groups needed and the quota
	OrderGroupLater Code = "OrderGroupLater" //
	// WaitsForWord: the account, the hash, and the interfaces that are blocked; counts the flows
	// that are not named. Because is the first of those that are, Quoted a hash that is of another
	// plan.
	WaitsForWord Code = "WaitsForWord"

	// Remarks.
	FormerGone      Code = "FormerGone"      // the groups
	FormerAllGone   Code = "FormerAllGone"   // the default group
	OpaqueDropped   Code = "OpaqueDropped"   // the peer
	StaysForBlocked Code = "StaysForBlocked" // the interface that cannot be given back; Because is why
	StaysForUnread  Code = "StaysForUnread"  // an interface of a service that cannot be read
	NotWaiting      Code = "NotWaiting"      //
	NeededByGroup   Code = "NeededByGroup"   // the group that refers to it
	NeededByHolder  Code = "NeededByHolder"  // the interface that holds it

	// Warnings.
	RejectIsDrop     Code = "RejectIsDrop"     //
	ProtocolsReduced Code = "ProtocolsReduced" // the direction

	// Why a step is made.
	ForClass         Code = "ForClass"         // the state of the class; counts its interfaces
	OnlyDescriptions Code = "OnlyDescriptions" //
	NoLongerAllowed  Code = "NoLongerAllowed"  //
	RulesNeedless    Code = "RulesNeedless"    //
	WithFormer       Code = "WithFormer"       //
	TakenApart       Code = "TakenApart"       // what rules match, the policy that takes out, and what; counts the rules
	NoClass          Code = "NoClass"          //
	TakeOver         Code = "TakeOver"         //
	TakeOverNative   Code = "TakeOverNative"   //
	ChangeClass      Code = "ChangeClass"      //
	GiveBack         Code = "GiveBack"         //
	Claims           Code = "Claims"           //
	NothingLeft      Code = "NothingLeft"      //
	Remembers        Code = "Remembers"        //
	Signs            Code = "Signs"            //
	Restored         Code = "Restored"         //
	SaysInForce      Code = "SaysInForce"      //
	ByForce          Code = "ByForce"          // the hash of the plan, the user who forced it or ""

	// Drift.
	PutInto     Code = "PutInto"     // the groups
	TakenOut    Code = "TakenOut"    //
	RuleAdded   Code = "RuleAdded"   // the rule
	TagsChanged Code = "TagsChanged" // the name of the group
	// MayPause: an interface that is denied the Flow for a moment; Because is another such reason.
	MayPause Code = "MayPause"
	// RecordCuts: an interface that ceases to allow the Flow, because of an interface whose record
	// is not believed nobody knows which groups it belongs to.
	RecordCuts Code = "RecordCuts"
)
