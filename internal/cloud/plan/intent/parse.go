package intent

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// parsePolicies returns the policies in the order of evaluation, with all their rules numbered in
// that order.
func (c *Account) parsePolicies() []*Policy {
	out := make([]*Policy, 0, len(c.In.Policies))
	for _, np := range c.In.Policies {
		p := Head(np)
		text, faulty := c.In.Faulty[p.Ref.UID]
		kinds, heavy := c.In.Heavy[p.Ref.UID]
		switch {
		case faulty:
			p.leaveOut(np, reason.Why(reason.PlannerFault).Quoting(text))
		case heavy:
			p.leaveOut(np, reason.Why(reason.TooManyKinds, owner(p.Ref.Namespace)).Counting(kinds))
		default:
			p.parseRules(np, c.lower)
			c.divideByPorts(p)
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, ComparePolicies)
	var rules []*rule
	for _, p := range out {
		for i, r := range p.Rules {
			r.ordinal = i
		}
		rules = append(rules, p.Rules...)
	}
	slices.SortStableFunc(rules, compareRules)
	for i, r := range rules {
		r.number = i
	}
	return out
}

// parser reads a policy as a cloud can hold it.
type parser struct {
	*Policy
	capability
}

// owner says whose policies are meant.
func owner(namespace string) string {
	if namespace == "" {
		return "without a namespace"
	}
	return "of namespace " + namespace
}

// leaveOut refuses a policy without a look at what its rules say.
func (p *Policy) leaveOut(np *v1beta2.NetworkPolicy, why *reason.Reason) {
	p.Problem = why
	for i := range np.Rules {
		r, _ := p.unread(&np.Rules[i], np.AppliedToGroups)
		p.Rules = append(p.Rules, r)
	}
}

// unread is a rule of the policy before anything is read of what it matches, and its peer.
func (p *Policy) unread(in *v1beta2.NetworkPolicyRule, appliedTo []string) (*rule, v1beta2.NetworkPolicyPeer) {
	r := &rule{Policy: p, Name: in.Name, Index: in.Priority, Direction: cloud.Ingress, Verdict: Drop, AppliedTo: in.AppliedToGroups}
	if len(r.AppliedTo) == 0 {
		r.AppliedTo = appliedTo
	}
	if in.Direction == v1beta2.DirectionOut {
		r.Direction = cloud.Egress
		return r, in.To
	}
	return r, in.From
}

// Head reads what identifies a policy and orders it among others.
func Head(np *v1beta2.NetworkPolicy) *Policy {
	p := &Policy{Ref: PolicyRef{UID: cmp.Or(string(np.UID), np.Name), Name: np.Name, Generation: np.Generation}}
	if src := np.SourceRef; src != nil {
		p.Ref.Kind, p.Ref.Namespace, p.Ref.Name = src.Type, src.Namespace, src.Name
	}
	switch {
	case np.TierPriority == nil || p.Ref.Kind == v1beta2.K8sNetworkPolicy:
		p.Stage, p.Tier = stageKubernetes, kubernetesTier
	case *np.TierPriority >= baselineTier:
		p.Stage, p.Tier = stageBaseline, *np.TierPriority
	default:
		p.Stage, p.Tier = stageAntrea, *np.TierPriority
	}
	if np.Priority != nil {
		p.Priority = *np.Priority
	}
	return p
}

func (p *Policy) parseRules(np *v1beta2.NetworkPolicy, lower capability) {
	for i := range np.Rules {
		p.Rules = append(p.Rules, parser{p, lower}.rule(&np.Rules[i], np.AppliedToGroups))
	}
}

func (p parser) rule(in *v1beta2.NetworkPolicyRule, appliedTo []string) *rule {
	r, peer := p.unread(in, appliedTo)
	switch {
	case in.Action == nil:
		r.Blocks = addrset.All()
	case *in.Action == v1beta2.RuleActionAllow:
		r.Verdict = Allow
	case *in.Action == v1beta2.RuleActionPass:
		r.Verdict = pass
	case *in.Action == v1beta2.RuleActionReject:
		p.Reject = true
	}
	switch {
	case len(peer.FQDNs) > 0:
		r.refuse(reason.Why(reason.PeerDomainName, peer.FQDNs[0]))
	case len(peer.ToServices) > 0:
		r.refuse(reason.Why(reason.PeerService, peer.ToServices[0].Namespace, peer.ToServices[0].Name))
	case len(peer.LabelIdentities) > 0:
		r.refuse(reason.Why(reason.PeerLabelSet))
	case len(in.L7Protocols) > 0:
		r.refuse(reason.Why(reason.Layer7))
	}
	r.Groups = peer.AddressGroups
	blocks := []addrset.Set{r.Blocks}
	for _, b := range peer.IPBlocks {
		set, wrong := parseBlock(b)
		if wrong != nil {
			r.refuse(wrong)
		}
		blocks = append(blocks, set)
	}
	r.Blocks = addrset.Union(blocks...)
	for i := range in.Services {
		p.service(r, &in.Services[i])
	}
	return r
}

func parseBlock(b v1beta2.IPBlock) (addrset.Set, *reason.Reason) {
	block, wrong := parsePrefix(b.CIDR)
	if wrong != nil {
		return addrset.Set{}, wrong
	}
	var excepts []netip.Prefix
	for _, e := range b.Except {
		except, wrong := parsePrefix(e)
		if wrong != nil {
			return addrset.Set{}, wrong
		}
		excepts = append(excepts, except)
	}
	return addrset.OfPrefixes(block).Minus(addrset.OfPrefixes(excepts...)), nil
}

func parsePrefix(n v1beta2.IPNet) (netip.Prefix, *reason.Reason) {
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, reason.Why(reason.BadAddress).Counting(len(n.IP))
	}
	p := netip.PrefixFrom(addr.Unmap(), int(n.PrefixLength))
	if !p.IsValid() {
		return netip.Prefix{}, reason.Why(reason.BadPrefixLength, addr.Unmap().String()).Counting(int(n.PrefixLength))
	}
	return p.Masked(), nil
}

// service adds one service to the rule. A rule with services that all failed to parse would match
// anything; its policy is refused as a whole, so that is never looked at.
func (p parser) service(r *rule, s *v1beta2.Service) {
	protocol := v1beta2.Protocol("")
	if s.Protocol != nil {
		protocol = *s.Protocol
	}
	number, known := withPorts[protocol]
	switch {
	case s.SrcPort != nil:
		r.refuse(reason.Why(reason.SourcePort).Counting(int(*s.SrcPort)))
	case s.Port != nil && s.Port.StrVal != "":
		r.Named = append(r.Named, namedService{protocol, s.Port.StrVal})
	case protocol == v1beta2.ProtocolICMP:
		kind, code := -1, -1
		if s.ICMPType != nil {
			kind = int(*s.ICMPType)
			if s.ICMPCode != nil {
				code = int(*s.ICMPCode)
			}
		}
		for _, number := range []int{cloud.ICMP, cloud.ICMPv6} {
			p.add(r, flow.ServiceOf(cloud.NewMatch(number, kind, code)))
		}
	case protocol == v1beta2.ProtocolIGMP && (s.IGMPType != nil || s.GroupAddress != ""):
		r.refuse(reason.Why(reason.IGMPDetails))
	case protocol == v1beta2.ProtocolIGMP:
		p.add(r, flow.Whole(2))
	case !known:
		r.refuse(reason.Why(reason.UnknownProtocol, string(protocol)))
	case s.Port == nil:
		p.add(r, flow.Whole(number))
	default:
		from, to := s.Port.IntVal, s.Port.IntVal
		if s.EndPort != nil {
			to = *s.EndPort
		}
		if from < 0 || to > 0xffff || from > to {
			r.refuse(reason.Why(reason.BadPortRange).Counting(int(from), int(to)))
			return
		}
		p.add(r, flow.Service{Protocol: number, From: uint16(from), To: uint16(to)})
	}
}

// add adds a service, and refuses the policy if the cloud cannot say it.
func (p parser) add(r *rule, s flow.Service) {
	if why := p.Unsupported(s); why != "" {
		r.refuse(reason.Why(reason.Unsupported).Quoting(why))
	}
	r.Services = append(r.Services, s)
}
