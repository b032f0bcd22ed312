package policy

import "net/netip"

// Semantics chooses the default of a direction.
type Semantics uint8

// The semantics.
const (
	// PodSemantics: a Kubernetes NetworkPolicy isolates, Antrea policies do not; what nothing decides is native.
	PodSemantics Semantics = iota
	// VMSemantics: a direction to which at least one Allow rule applies is isolated; what nothing decides in an open
	// direction is native, that is, up to the VM's own security groups.
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
	// OutcomeUnknown: a domain name or a Service, which only the enforcer can resolve, decides.
	OutcomeUnknown Outcome = "Unknown"
)

// Endpoint is one end of a flow.
type Endpoint struct {
	// EntityRef is the entity, or zero for a plain address: no policy applies there.
	EntityRef
	// Addr is the address the packets carry. If it is not valid, address groups are matched by EntityRef and no
	// ipBlock matches.
	Addr netip.Addr
	// Semantics is that of the enforcer responsible for the entity.
	Semantics Semantics
}

// Flow is the first packet of a connection.
type Flow struct {
	Source      Endpoint
	Destination Endpoint
	Protocol    Protocol
	// SourcePort and Port are for TCP, UDP and SCTP. A SourcePort of 0 is matched by rules without source port only.
	// Rules about application protocols are matched by their ports.
	SourcePort uint16
	Port       uint16
	// ICMPType and ICMPCode are for ICMP; IGMPType for IGMP.
	ICMPType uint8
	ICMPCode uint8
	IGMPType uint8
}

// RuleRef points at a rule of a computed policy.
type RuleRef struct {
	Policy    PolicyRef
	Direction Direction
	Rule      *ComputedRule
	// TierPriority is 251 for a Kubernetes NetworkPolicy.
	TierPriority int32
	Priority     float64
}

// Decision is the verdict in one direction.
type Decision struct {
	Outcome Outcome
	// By is the deciding rule. Nil if the default decided: isolation (Drop) or OutcomeNative.
	By *RuleRef
	// Isolated tells that the default of the direction is Drop, and IsolatedBy by which policies.
	Isolated   bool
	IsolatedBy []PolicyRef
	// Passed are matching Pass rules on the way, in order.
	Passed []RuleRef
	// Uncertain are the rules that may match, depending on what a name or Service resolves to. If they could change the
	// outcome it is OutcomeUnknown, and By is nil.
	Uncertain []RuleRef
}

// Verdict is the verdict on a flow: Egress at the source, Ingress at the destination. The flow passes if both let it.
type Verdict struct {
	Egress  Decision
	Ingress Decision
}
