package nft

import "fmt"

// Reason says why a policy is refused.
type Reason string

// The reasons.
const (
	ReasonFQDN          Reason = "FQDN"
	ReasonL7            Reason = "L7Protocols"
	ReasonServices      Reason = "ToServices"
	ReasonIdentities    Reason = "LabelIdentities"
	ReasonAction        Reason = "Action"
	ReasonDirection     Reason = "Direction"
	ReasonProtocol      Reason = "Protocol"
	ReasonPort          Reason = "Port"
	ReasonICMP          Reason = "ICMP"
	ReasonIGMPGroup     Reason = "IGMPGroup"
	ReasonAddress       Reason = "Address"
	ReasonAddressGroup  Reason = "AddressGroup"
	ReasonManyEndpoints Reason = "SeveralEntities"
	// ReasonAppliedToServices: the policy is applied to a Service.
	ReasonAppliedToServices Reason = "AppliedToServices"
	// ReasonBypass: packets of a Pod that the policy is applied to do not come by.
	ReasonBypass Reason = "Bypass"
)

// Refusal says that a policy is not in a Program, and why.
type Refusal struct {
	// Policy is the name of the computed policy, which is the UID of its source.
	Policy string
	// Rule is the rule that cannot be expressed; empty if it is the whole policy.
	Rule   string
	Reason Reason
	// Value is what is not understood, where that helps.
	Value string
}

// String is the message for people.
func (r Refusal) String() string {
	var what string
	switch r.Reason {
	case ReasonFQDN:
		what = "domain names as peers cannot be enforced by this agent, which does not see the answers of resolvers"
	case ReasonL7:
		what = "layer 7 protocols cannot be enforced by the agent"
	case ReasonServices:
		what = "Services as peers cannot be enforced where the agent knows no Services, which it does on Nodes only, and in egress rules"
	case ReasonAppliedToServices:
		return "the policy is applied to Service " + r.Value + ", which the agent cannot enforce"
	case ReasonBypass:
		return "not enforceable on " + r.Value
	case ReasonIdentities:
		what = "label identities of other clusters cannot be enforced by the agent"
	case ReasonManyEndpoints:
		return "several entities have the key of this host, so it is not known which of them it is"
	case ReasonAddressGroup:
		what = "the address group " + r.Value + " is not known"
	case ReasonIGMPGroup:
		what = "a group address matches IGMP messages of versions 1 and 2 only, so igmpType must be one of these"
	default:
		what = fmt.Sprintf("%s %q is not understood", r.Reason, r.Value)
	}
	if r.Rule != "" {
		return "rule " + r.Rule + ": " + what
	}
	return what
}
