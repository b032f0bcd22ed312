// Package words says the reasons of the planner in sentences. It is the only place where they are
// made, and it decides nothing. It is pure.
package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// sentences are the forms of reasons: verbs for their objects, and after these for their numbers,
// what is quoted and the reason behind. What needs more than that is made by Of.
var sentences = map[reason.Code]string{
	reason.PeerDomainName:     "the peer is a domain name (%s); security groups know addresses only",
	reason.PeerService:        "the peer is the Service %s/%s; security groups know addresses only",
	reason.PeerLabelSet:       "the peer is a label set of another cluster; security groups know addresses only",
	reason.Layer7:             "security groups do not see layer 7 protocols",
	reason.BadPrefixLength:    "the ipBlock %s/%d is not valid; a prefix has at most 32 bits for IPv4, and 128 for IPv6",
	reason.BadAddress:         "an ipBlock has an address of %d bytes; it has 4 for IPv4, and 16 for IPv6",
	reason.SourcePort:         "security groups do not match source ports (%d)",
	reason.NamedPortOfPeer:    "named port %q is not a port of any of the peers; use the number, or name the port at the peer's entity",
	reason.InterfaceUnguarded: "%s is a network interface that no policy can apply to: %s",
	reason.ServiceUnguarded:   "%s is a native service whose security groups cannot be set: %s. Let policies on its peers say what may flow",
	reason.NamedPortVaries:    "named port %q means more than %d numbers to the peers; use the numbers",
	reason.IGMPDetails:        "security groups do not match IGMP types and multicast groups",
	reason.BadPortRange:       "port range %d-%d is not valid",
	reason.UnknownProtocol:    "protocol %q is not known",
	reason.Unsupported:        "%s",
	reason.NamedPortUnknown:   "named port %q is not a port of this VM's entity",
	reason.GroupUnknown:       "the address group %s is not known yet",

	reason.ModePlanned:     "the VM %s is only planned for (mode plan)",
	reason.ModeBraked:      "the VM %s waits for a confirmation of the account (condition Braked)",
	reason.ModeReleased:    "the VM %s is released (mode %s)",
	reason.CloudRefuses:    "the cloud refuses to change the interface %s: %s",
	reason.NetworkClaimed:  "the network %s is claimed by the controller %s (tag " + cloud.TagClaim + ")",
	reason.HeldElsewhere:   "the interface %s is held by the controller %s for the account %s",
	reason.OfService:       "the interface %s belongs to a service of the cloud, its groups cannot be set",
	reason.Untouchable:     "the interface %s cannot be taken over: %s",
	reason.ConfirmedGone:   "the annotation names %s, which does not exist",
	reason.ConfirmedAbroad: "the annotation names %s, which is of another network",
	reason.ConfirmedOurs:   "the annotation names %s, which is one of Nephele's own",

	reason.ReferredAbroad: "rules in the network %s of the account %s refer to the group %s over the peering %s, and would no longer match the interface %s: " +
		"let them name addresses, or give the VM another group instead",
	reason.NotSelected:    "it belongs to no selected VM",
	reason.TakeOverShort:  "taking over the interface %s with its present rules: %s",
	reason.WaitsBetween:   "the interface %s waits for others to become narrower, because the state in between does not fit: %s",
	reason.InterfaceStays: "the interface %s stays as it is: %s",
	reason.Kept:           "%s; what was last realized of the policy stays in force here",
	reason.NoInterface:    "the VM has no interface",
	reason.NoClusterID:    "the controller has no cluster id, so it could not tell its own security groups from others",
	// A part of a plan may cut what the rest gives.
	reason.PlannerFault: "a fault of Nephele, please report it; what was enforced stays as it is: %s",
	reason.TooMuchWork: "nothing is changed, and what is enforced stays as it is: to plan this takes longer than is allowed for one round; " +
		"let fewer policies select these VMs, or tell fewer kinds of VMs apart",
	reason.TooManyKinds: "the policies %s tell %d kinds of VMs apart, and to plan for all of them takes longer than is allowed for one round; " +
		"let fewer policies select these VMs, or tell fewer kinds of VMs apart",
	reason.OrderOpposite:   "it and its peers change in opposite directions, and there is no room for the state in between",
	reason.OrderGroupLater: "it waits for a group that is not there yet",

	reason.FormerAllGone:   "none of its former groups exists any more; it gets the default group of the network, %s",
	reason.OpaqueDropped:   "the native rules that refer to %s are left out where policies drop part of the same traffic, because its members are not known here",
	reason.StaysForBlocked: "it stays under control, without policies, until %s can be given back, with which it would lose flows: %s",
	reason.StaysForUnread:  "rules of its own groups refer to groups, and %s is of a service that cannot be read, so nobody knows whether it belongs to them",
	reason.NotWaiting:      "it is given back without waiting for planned VMs: flows with these may be open or cut for the time of its edit",
	reason.NeededByGroup:   "it is no longer needed, but cannot be deleted while the group %s refers to it",
	reason.NeededByHolder:  "it is no longer needed, but cannot be deleted while the interface %s holds it",

	reason.RejectIsDrop: "Reject is realized as Drop: security groups cannot answer.",

	reason.ForClass:         "%s class, interfaces: %d",
	reason.OnlyDescriptions: "only their descriptions",
	reason.NoLongerAllowed:  "no longer allowed",
	reason.RulesNeedless:    "not needed any more",
	reason.WithFormer:       "with what the former groups allow",
	reason.NoClass:          "no class needs it",
	reason.TakeOver:         "take over",
	reason.TakeOverNative:   "take over with the rules of its own groups, because these refer to groups that others give up",
	reason.ChangeClass:      "change class",
	reason.GiveBack:         "give back",
	reason.Claims:           "policies apply in this network",
	reason.NothingLeft:      "nothing of ours is left in this network",
	reason.Remembers:        "remember its groups",
	reason.Signs:            "sign what it remembers",
	reason.Restored:         "its groups are restored",
	reason.SaysInForce:      "which policies are in force",

	reason.TakenOut:    "somebody took the interface out of its group of ours",
	reason.RuleAdded:   "somebody added the rule: %s",
	reason.TagsChanged: TagsChanged + "%s",
}

// TagsChanged begins the sentence about a group of ours whose tags were changed, before its name.
const TagsChanged = "somebody changed the tags of our group "

// Of says a reason; nothing if there is none.
func Of(r *reason.Reason) string {
	if r == nil {
		return ""
	}
	if form, simple := sentences[r.Code]; simple {
		var args []any
		for _, o := range r.Objects {
			args = append(args, o)
		}
		for _, n := range r.Numbers {
			args = append(args, n)
		}
		if r.Quoted != "" {
			args = append(args, r.Quoted)
		}
		if r.Because != nil {
			args = append(args, Of(r.Because))
		}
		return fmt.Sprintf(form, args...)
	}
	switch r.Code {
	case reason.InRule:
		return inRule(r) + ": " + Of(r.Because)
	case reason.TooManyTags:
		return fmt.Sprintf("the interface %s needs %s to remember its groups, it has %d of at most %d",
			r.Objects[0], cloud.Counted(r.Numbers[0], "tag"), r.Numbers[1], r.Numbers[2])
	case reason.RecordGone, reason.RecordUnsigned:
		return record(r)
	case reason.DependentLoses:
		return dependentLoses(r)
	case reason.FollowNoRoom:
		return fmt.Sprintf("the group %s has the tag %s and %s of its own, and no room for %s more, which would name the VMs that give up the group that its rules name: "+
			"raise the quota of %s per group, or let its rules name addresses", r.Objects[0], cloud.TagFollow, cloud.Counted(r.Numbers[0], "rule"),
			cloud.Counted(r.Numbers[1], "rule"), cloud.Counted(r.Numbers[2], "rule"))
	case reason.RulesShort:
		return rulesShort(r.Lack)
	case reason.GroupsShort:
		return fmt.Sprintf("no security group is left for it: all that is to be enforced in the region %s needs %s, and besides %s there is room for %d, because the quota is %d; "+
			"a quota of %d groups would do", r.Objects[0], cloud.Counted(r.Numbers[0], "group"), cloud.Counted(r.Numbers[1], "other"), r.Numbers[2], r.Lack.Available, r.Lack.WouldDo)
	case reason.FormerGone:
		exist := " no longer exist"
		if len(r.Objects) == 1 {
			exist += "s"
		}
		return "of its former groups " + strings.Join(r.Objects, ", ") + exist + " and cannot be restored"
	case reason.PutInto:
		return "somebody put the interface into " + strings.Join(r.Objects, ", ")
	case reason.MayPause:
		return "while that is put right, " + flowOf(r) + " may be cut"
	case reason.WaitsForWord:
		return waitsForWord(r)
	case reason.RecordCuts:
		return "rules of its own groups allow members of groups, and of interfaces whose record is not believed nobody knows whether they are members: " + flowOf(r) + " is cut"
	case reason.ByForce:
		text := "forced by the annotation " + v1alpha1.AnnotationForce + "=" + r.Objects[0]
		if r.Objects[1] != "" {
			text += ", set by " + r.Objects[1]
		}
		return text
	case reason.TakenApart:
		return fmt.Sprintf("%d rules for %s, because %s takes out %s", r.Numbers[0], r.Objects[0], r.Objects[1], cloud.Listed(r.Objects[2:], false))
	case reason.ProtocolsReduced:
		return protocolsReduced(r.Objects[0])
	}
	return order(r) + "; \"nephele plan\" tells with which word it goes on all the same"
}

// All says several reasons, with something between them.
func All(reasons []*reason.Reason, between string) string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = Of(r)
	}
	return strings.Join(out, between)
}

// inRule names a rule of a policy.
func inRule(r *reason.Reason) string {
	name, direction, index := r.Objects[0], r.Objects[1], r.Numbers[0]
	switch {
	case name != "":
		return fmt.Sprintf("the %s rule %q", direction, name)
	case index < 0: // policies of Kubernetes do not order their rules
		return "a rule for " + direction
	}
	return fmt.Sprintf("the %s rule %d", direction, index)
}

// order says why there is no clean moment for an edit.
func order(r *reason.Reason) string {
	switch r.Code {
	case reason.OrderLeak:
		return "no order of the changes keeps " + flowOf(r) + " closed, which is allowed neither before nor after"
	case reason.OrderGap:
		return "no order of the changes keeps " + flowOf(r) + " open, which is allowed before and after; a free slot for groups on the interfaces that move would do"
	case reason.OrderInterface:
		return fmt.Sprintf("the change needs %s on an interface for a moment, and the quota is %d", cloud.Counted(r.Numbers[0], "group"), r.Numbers[1])
	case reason.OrderRules:
		return fmt.Sprintf("the group %s has no room for the old and the new rules together: the change needs %s for a moment, and the quota is %d",
			r.Objects[0], cloud.Counted(r.Numbers[0], "rule"), r.Numbers[1])
	case reason.OrderRegion:
		return fmt.Sprintf("the change needs %s in the region for a moment, and the quota is %d", cloud.Counted(r.Numbers[0], "group"), r.Numbers[1])
	}
	return string(r.Code)
}

func flowOf(r *reason.Reason) string {
	return fmt.Sprintf("%s %s of %s with %s", r.Flow.Direction, r.Flow.Service, strings.Join(r.Objects, ", "), addresses(r.Flow.Addrs))
}

// addresses names the first few of some addresses.
func addresses(set addrset.Set) string {
	const most = 3
	if set.Empty() {
		return "peers that are not known here"
	}
	return set.Words(most)
}

func record(r *reason.Reason) string {
	state := "not signed by this cluster"
	if r.Code == reason.RecordGone {
		state = "gone"
	}
	what := "its record of former groups, the tag " + cloud.TagFormer + ", is " + state + "; so it stays under control as it is, until the annotation " + v1alpha1.AnnotationFormerGroups + " of the account says what is to be given back: " +
		r.Objects[0] + "=GROUP,GROUP"
	if r.Because != nil {
		what += " (" + Of(r.Because) + ")"
	}
	return what
}

func dependentLoses(r *reason.Reason) string {
	holder, dependent, vm, group, lost := r.Objects[0], r.Objects[1], r.Objects[2], r.Objects[3], r.Objects[4]
	remedy := ""
	if vm != "" {
		remedy = "select its VM, "
	}
	return fmt.Sprintf("the group %s of the interface %s refers to the group %s, and the interface %s would no longer match it; "+
		"%s cannot be taken over itself (%s): %slet %s allow addresses instead of the group, or say by spec.dependents of the account what becomes of it",
		holder, dependent, group, lost, dependent, Of(r.Because), remedy, holder)
}

// waitsForWord says what is blocked, and with which word it goes on.
func waitsForWord(r *reason.Reason) string {
	const most = 3
	nics := r.Objects[2:]
	named := slices.Clone(nics[:min(len(nics), most)])
	if more := cloud.AndMore(len(nics)-most, "nephele plan"); more != "" {
		named = append(named, more)
	}
	text := "every order of the changes of " + strings.Join(named, ", ") + " would cut or open a flow meanwhile, so all of that stays as it is"
	if r.Quoted != "" {
		text += fmt.Sprintf("; the annotation %s is %q, which is of another plan", v1alpha1.AnnotationForce, cloud.Words(r.Quoted))
	}
	namespace, name, _ := strings.Cut(r.Objects[0], "/")
	text += fmt.Sprintf(". Force it before you confirm anything, because a confirmation counts for one plan alone. It goes on, closing first, with: kubectl annotate cloudprovideraccount %s -n %s %s=\"%s%s$(kubectl auth whoami -o jsonpath={.status.userInfo.username})\" --overwrite",
		name, namespace, v1alpha1.AnnotationForce, r.Objects[1], v1alpha1.ForceBy)
	var cuts []string
	for m := r.Because; m != nil; m = m.Because {
		cuts = append(cuts, flowOf(m))
	}
	if len(cuts) == 0 {
		return text
	}
	text += ". For a moment that may cut " + strings.Join(cuts, "; ")
	if r.Numbers[0] > 0 {
		text += fmt.Sprintf("; and %d more", r.Numbers[0])
	}
	return text
}

// ofAzure says what a limit of a network security group counts.
var ofAzure = map[string]string{
	reason.LimitSecurityRules:     "security rule",
	reason.LimitSources:           "source address prefix",
	reason.LimitDestinations:      "destination address prefix",
	reason.LimitApplicationGroups: "application security group",
}

// rulesShort tells the numbers of a quota of rules.
func rulesShort(l *reason.Lack) string {
	least := ""
	if l.AtLeast {
		least = "at least "
	}
	if noun, azure := ofAzure[l.Quota]; azure {
		return fmt.Sprintf("its network security group would need %s%s, and Azure takes at most %d in one and raises that for nobody; "+
			"blocks of addresses that can be put together need fewer", least, counted(l.Needed, noun), l.Available)
	}
	if l.Quota == reason.QuotaGroupsPerInterface {
		return fmt.Sprintf("it needs %s on one interface, and %d are left of the quota", cloud.Counted(l.Needed, "group"), l.Available)
	}
	needs := fmt.Sprintf("it needs %s%s for %s on one interface", least, cloud.Counted(l.Needed, l.Direction+" rule"), l.Family)
	groups := fmt.Sprintf("%s of at most %s", cloud.Counted(l.Limits.GroupsPerInterface, "group"), cloud.Counted(l.Limits.RulesPerGroup, "rule"))
	if l.Whole {
		return needs + ", among them prefix lists that one group has to hold whole, and they do not fit into " + groups
	}
	hold := "hold"
	if l.Limits.GroupsPerInterface == 1 {
		hold = "holds"
	}
	return fmt.Sprintf("%s, and %s %s %d", needs, groups, hold, l.Available)
}

// counted is a number of things of which several may end in -es.
func counted(n int, noun string) string {
	if n != 1 && strings.HasSuffix(noun, "x") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return cloud.Counted(n, noun)
}

func protocolsReduced(direction string) string {
	var names []string
	for _, protocol := range flow.KeptProtocols() {
		names = append(names, cloud.ProtocolName(protocol))
	}
	return "Where a rule takes some " + direction + " traffic out of what all protocols were allowed, of the others only these IP protocols stay open, " +
		"and of ICMP the types in use: " + strings.Join(names, ", ") + "."
}
