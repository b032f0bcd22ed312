package nft

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// check returns why a policy cannot be expressed, or nil.
func (w *work) check(p *policyParts) *Refusal {
	if p.invalid != nil {
		return p.invalid
	}
	if p.named != nil && w.names == nil {
		return refuse(p.source, p.named, Refusal{Reason: ReasonFQDN})
	}
	if p.services != nil && w.services == nil {
		return refuse(p.source, p.services, Refusal{Reason: ReasonServices})
	}
	if p.complete == w.gathered && w.gathered > 0 {
		return nil
	}
	for _, g := range p.groups {
		if w.groups[g.group] == nil {
			return refuse(p.source, g.rule, Refusal{Reason: ReasonAddressGroup, Value: g.group})
		}
	}
	p.complete = w.gathered
	return nil
}

func refuse(p *v1beta2.NetworkPolicy, r *v1beta2.NetworkPolicyRule, why Refusal) *Refusal {
	why.Policy, why.Rule = p.Name, cmp.Or(r.Name, fmt.Sprint(r.Priority))
	return &why
}

// invalid returns why a policy cannot be expressed whatever groups are known, or nil.
func invalid(p *v1beta2.NetworkPolicy) *Refusal {
	for i := range p.Rules {
		if why := invalidRule(p, &p.Rules[i]); why != nil {
			return refuse(p, &p.Rules[i], *why)
		}
	}
	return nil
}

func invalidRule(p *v1beta2.NetworkPolicy, r *v1beta2.NetworkPolicyRule) *Refusal {
	switch {
	case r.Direction != v1beta2.DirectionIn && r.Direction != v1beta2.DirectionOut:
		return &Refusal{Reason: ReasonDirection, Value: string(r.Direction)}
	case r.Action == nil && p.TierPriority != nil:
		return &Refusal{Reason: ReasonAction}
	case r.Action != nil && !slices.Contains([]v1beta2.RuleAction{v1beta2.RuleActionAllow, v1beta2.RuleActionDrop, v1beta2.RuleActionReject, v1beta2.RuleActionPass}, *r.Action):
		return &Refusal{Reason: ReasonAction, Value: string(*r.Action)}
	case len(r.L7Protocols) > 0:
		return &Refusal{Reason: ReasonL7}
	}
	peer := peerOf(r)
	switch {
	case len(peer.FQDNs) > 0 && directionOf(r) == ruleset.Ingress:
		return &Refusal{Reason: ReasonFQDN}
	case len(peer.ToServices) > 0 && directionOf(r) == ruleset.Ingress:
		return &Refusal{Reason: ReasonServices}
	case len(peer.LabelIdentities) > 0:
		return &Refusal{Reason: ReasonIdentities}
	}
	for _, b := range peer.IPBlocks {
		for _, n := range append([]v1beta2.IPNet{b.CIDR}, b.Except...) {
			if _, ok := prefix(n); !ok {
				return &Refusal{Reason: ReasonAddress, Value: fmt.Sprintf("%v/%d", []byte(n.IP), n.PrefixLength)}
			}
		}
	}
	for i := range r.Services {
		if refusal := checkService(&r.Services[i]); refusal != nil {
			return refusal
		}
	}
	return nil
}

func checkService(s *v1beta2.Service) *Refusal {
	octet := func(n *int32) bool { return n == nil || *n >= 0 && *n <= 255 }
	port := func(n *int32) bool { return n == nil || *n >= 0 && *n <= 65535 }
	switch {
	case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolICMP:
		if !octet(s.ICMPType) || !octet(s.ICMPCode) {
			return &Refusal{Reason: ReasonICMP}
		}
	case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolIGMP:
		if !octet(s.IGMPType) {
			return &Refusal{Reason: ReasonICMP}
		}
		if s.GroupAddress == "" {
			return nil
		}
		// Reports of version 3 carry any number of groups at other places.
		if s.IGMPType == nil || *s.IGMPType == 0x22 {
			return &Refusal{Reason: ReasonIGMPGroup}
		}
		if a, err := netip.ParseAddr(s.GroupAddress); err != nil || !a.Unmap().Is4() {
			return &Refusal{Reason: ReasonAddress, Value: s.GroupAddress}
		}
	case len(protocols(s.Protocol)) == 0:
		return &Refusal{Reason: ReasonProtocol, Value: string(*s.Protocol)}
	case !port(s.SrcPort) || !port(s.SrcEndPort) || !port(s.EndPort) || s.Port != nil && s.Port.Type == intstr.Int && !port(&s.Port.IntVal):
		return &Refusal{Reason: ReasonPort}
	}
	return nil
}
