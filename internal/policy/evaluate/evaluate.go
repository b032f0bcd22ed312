package evaluate

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
)

// Semantics chooses the default of a direction.
type Semantics uint8

// The semantics.
const (
	// PodSemantics: a Kubernetes NetworkPolicy isolates, Antrea policies do not; what nothing
	// decides is native.
	PodSemantics Semantics = iota
	// VMSemantics: a direction to which at least one Allow rule applies is isolated; what nothing
	// decides in an open direction is native, that is, up to the VM's own security groups.
	VMSemantics
)

// Outcome is the decision in one direction.
type Outcome string

// The outcomes.
const (
	OutcomeAllow  Outcome = "Allow"
	OutcomeDrop   Outcome = "Drop"
	OutcomeReject Outcome = "Reject"
	// OutcomeNative: no policy decides.
	OutcomeNative Outcome = "Native"
	// OutcomeUnknown: a domain name or a Service, which only the enforcer can resolve, decides, or
	// a member of a group that is not in sight.
	OutcomeUnknown Outcome = "Unknown"
)

// Endpoint is one end of a flow.
type Endpoint struct {
	// EntityRef is the entity, or zero for a plain address: no policy applies there. A Pod in the
	// network of its Node is that Node, whose policies hold for it.
	policy.EntityRef
	// Addr is the address the packets carry. If it is not valid, address groups are matched by
	// EntityRef and no ipBlock matches.
	Addr netip.Addr
	// Semantics is that of the enforcer responsible for the entity.
	Semantics Semantics
}

// Flow is the first packet of a connection.
type Flow struct {
	Source      Endpoint
	Destination Endpoint
	Protocol    policy.Protocol
	// SourcePort and Port are for TCP, UDP and SCTP. A SourcePort of 0 is matched by rules without
	// source port only. Rules about application protocols are matched by their ports.
	SourcePort uint16
	Port       uint16
	// ICMPType and ICMPCode are for ICMP and ICMPv6, which rules do not tell apart: an echo request
	// is type 8 of the one and 128 of the other. IGMPType is for IGMP.
	ICMPType uint8
	ICMPCode uint8
	IGMPType uint8
	// GroupAddress is the group that an IGMP message is about; if it is not valid, the address of
	// the destination.
	GroupAddress netip.Addr
	// Service is the Service to whose address the packet is sent, if it is to one. Destination,
	// Port and the rest are then the ones of the backend that is chosen for it, as rules see the
	// packet.
	Service policy.NamespacedName
	// Direct tells that the packet is not sent to the address of a Service. If neither is set this
	// is not known.
	Direct bool
	// Relayed says that a relay forwards it with the address of the source, so that it comes from
	// outside even to the holder of that address.
	Relayed bool
}

// RuleRef points at a rule of a computed policy.
type RuleRef struct {
	Policy    policy.PolicyRef
	Direction policy.Direction
	Rule      *policy.ComputedRule
	// Index is the place of the rule among the rules of its direction as the author wrote them,
	// from 0; -1 for the deny-all rule of a Kubernetes NetworkPolicy, which nobody wrote.
	Index int
	// TierPriority is 251 for a Kubernetes NetworkPolicy.
	TierPriority int32
	Priority     float64
	// Through are the entities by which the rule matches an end that it does not select itself:
	// others with the same address, which is all that enforcers look at.
	Through []policy.EntityRef
	// Unseen says of an uncertain rule that it may match by a member of a group that is not in
	// sight.
	Unseen bool
}

// Exemption says why no policy is asked about a flow.
type Exemption string

// The exemptions.
const (
	// ExemptItself: the packet goes to its own sender, and never leaves it. Between two addresses
	// of an ExternalEntity it may.
	ExemptItself Exemption = "itself"
	// ExemptOwnNode: the packet comes to a Pod from its own Node, which is always let in.
	ExemptOwnNode Exemption = "ownNode"
)

// Decision is the verdict in one direction.
type Decision struct {
	Outcome Outcome
	// By is the deciding rule. Nil if the default decided: isolation (Drop) or OutcomeNative.
	By *RuleRef
	// Exempt tells that no policy was asked. The outcome is OutcomeNative, and nothing else is set.
	Exempt Exemption
	// Isolated tells that the default of the direction is Drop, and IsolatedBy by which policies.
	Isolated   bool
	IsolatedBy []policy.PolicyRef
	// Passed are matching Pass rules on the way, in order.
	Passed []RuleRef
	// Uncertain are the rules that may match, depending on what a name or Service resolves to, or
	// on members of groups that are not in sight. If
	// they could change the outcome it is OutcomeUnknown, and By is nil.
	Uncertain []RuleRef
	// Possible are, for OutcomeUnknown, the outcomes that there may be, sorted.
	Possible []Outcome
}

// Verdict is the verdict on a flow: Egress at the source, Ingress at the destination. The flow
// passes if both let it.
type Verdict struct {
	Egress  Decision
	Ingress Decision
	// Service is the decision of the rules applied to Flow.Service, between the other two. Nil if
	// there are none for the source: they hold for clients outside the cluster, not for Pods and
	// Nodes.
	Service *Decision
}

// Together returns what the sender of the packet sees: the first decision on its way that does not
// let it pass, else OutcomeNative if there is one, else OutcomeAllow. It is OutcomeUnknown if that
// depends on a name or Service.
func (v *Verdict) Together() Outcome {
	way := []*Decision{&v.Egress, &v.Ingress}
	if v.Service != nil {
		way = []*Decision{&v.Egress, v.Service, &v.Ingress}
	}
	ends, passing := []Outcome(nil), []Outcome{OutcomeAllow}
	add := func(list []Outcome, o Outcome) []Outcome {
		if slices.Contains(list, o) {
			return list
		}
		return append(list, o)
	}
	for _, d := range way {
		var next []Outcome
		for _, o := range d.outcomes() {
			switch o {
			case OutcomeAllow:
				for _, before := range passing {
					next = add(next, before)
				}
			case OutcomeNative:
				next = add(next, OutcomeNative)
			default:
				ends = add(ends, o)
			}
		}
		if passing = next; len(passing) == 0 {
			break
		}
	}
	for _, o := range passing {
		ends = add(ends, o)
	}
	if len(ends) == 1 {
		return ends[0]
	}
	return OutcomeUnknown
}

// outcomes are the outcomes that there may be.
func (d *Decision) outcomes() []Outcome {
	if d.Outcome == OutcomeUnknown {
		return d.Possible
	}
	return []Outcome{d.Outcome}
}
