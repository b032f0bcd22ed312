package intent

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// stage is one of the three passes in which the rules are walked. What a Pass rule matches goes on
// in the next stage.
type stage int

const (
	stageAntrea stage = iota
	stageKubernetes
	stageBaseline
)

const (
	// kubernetesTier is where Kubernetes NetworkPolicies, which have no tier, sort.
	kubernetesTier = 251
	// baselineTier is the first tier after the Kubernetes NetworkPolicies.
	baselineTier = 253
)

// Verdict is what a rule does with what it matches.
type Verdict int

const (
	Allow Verdict = iota
	Drop
	pass
	// grant allows like allow, but does not isolate: failsafe flows.
	Grant
)

// Policy is a computed policy, parsed.
type Policy struct {
	Ref      PolicyRef
	Stage    stage
	Tier     int32
	Priority float64
	Rules    []*rule
	// problem says why the policy cannot be expressed at all in this cloud; nil if it can.
	Problem *Reason
	// Narrowed says what of the policy the cloud cannot say and, as the policy asks, is narrower:
	// one reason before the other. Nil if all of it can be said.
	Narrowed *Reason
	// reject tells that a rule says Reject, which is realized as Drop.
	Reject bool
}

// rule is one rule of a policy, parsed.
type rule struct {
	Policy    *Policy
	Name      string
	Index     int32
	ordinal   int // position in the policy; several rules may have the same index
	number    int // position in the order of evaluation, over all policies and both directions
	Direction cloud.Direction
	Verdict   Verdict
	// services is nil for any service.
	Services []flow.Service
	// void tells that services were left out, so that none do not mean any.
	void bool
	// Named are ports that every VM resolves with the named ports of its entities. In egress rules
	// they are those of the peers, and divideByPorts leaves none.
	Named []namedService
	// groups are the address groups of the peer, blocks its addresses.
	Groups []string
	Blocks addrset.Set
	// appliedTo are names of applied-to groups.
	AppliedTo []string
}

// namedService is a port given by name; protocol is empty if that of the member's port counts.
type namedService struct {
	protocol v1beta2.Protocol
	name     string
}

// parsePolicies returns the policies in the order of evaluation, with all their rules numbered in
// that order.
func (c *Account) parsePolicies() []*Policy {
	out := make([]*Policy, 0, len(c.In.Policies))
	for _, np := range c.In.Policies {
		p := parsePolicy(np, c.lower, c.In.Tighten[string(np.UID)])
		c.divideByPorts(p)
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

// ComparePolicies orders policies as they are evaluated.
func ComparePolicies(a, b *Policy) int {
	return cmp.Or(
		cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Ref.Namespace, b.Ref.Namespace), cmp.Compare(a.Ref.Name, b.Ref.Name), cmp.Compare(a.Ref.UID, b.Ref.UID),
	)
}

func compareRules(a, b *rule) int {
	p, q := a.Policy, b.Policy
	return cmp.Or(
		cmp.Compare(p.Stage, q.Stage), cmp.Compare(p.Tier, q.Tier), cmp.Compare(p.Priority, q.Priority),
		cmp.Compare(a.Index, b.Index), ComparePolicies(p, q),
	)
}

// parser reads a policy as a cloud can hold it.
type parser struct {
	*Policy
	capability
	tighten bool // the policy asks for as much as the cloud can hold
}

func parsePolicy(np *v1beta2.NetworkPolicy, lower capability, tighten bool) *Policy {
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
	for i := range np.Rules {
		p.Rules = append(p.Rules, parser{p, lower, tighten}.rule(&np.Rules[i], np.AppliedToGroups))
	}
	return p
}

func (p parser) rule(in *v1beta2.NetworkPolicyRule, appliedTo []string) *rule {
	r := &rule{Policy: p.Policy, Name: in.Name, Index: in.Priority, Direction: cloud.Ingress, Verdict: Drop, AppliedTo: in.AppliedToGroups}
	if len(r.AppliedTo) == 0 {
		r.AppliedTo = appliedTo
	}
	peer := in.From
	if in.Direction == v1beta2.DirectionOut {
		r.Direction, peer = cloud.Egress, in.To
	}
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
		r.refuse(Why(PeerDomainName, peer.FQDNs[0]))
	case len(peer.ToServices) > 0:
		r.refuse(Why(PeerService, peer.ToServices[0].Namespace, peer.ToServices[0].Name))
	case len(peer.LabelIdentities) > 0:
		r.refuse(Why(PeerLabelSet))
	case len(in.L7Protocols) > 0:
		r.refuse(Why(Layer7))
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

// names are what reasons say of a rule: its name, or else its index, and its direction.
func (r *rule) names() []string {
	direction := v1beta2.DirectionIn
	if r.Direction == cloud.Egress {
		direction = v1beta2.DirectionOut
	}
	return []string{cmp.Or(r.Name, strconv.Itoa(int(r.Index))), string(direction)}
}

// refuse records the first reason why the policy cannot be expressed.
func (r *rule) refuse(why *Reason) {
	if r.Policy.Problem == nil {
		r.Policy.Problem = Why(InRule, r.names()...).From(why)
	}
}

// narrow records what becomes of a service that the cloud cannot say.
func (r *rule) narrow(what Code, s flow.Service) {
	code := int(s.From & 0xff)
	if s.From != s.To {
		code = -1
	}
	objects := append(r.names(), cloud.ProtocolName(s.Protocol))
	r.Policy.Narrowed = Why(what, objects...).Counting(int(s.From>>8), code).From(r.Policy.Narrowed)
}

func parseBlock(b v1beta2.IPBlock) (addrset.Set, *Reason) {
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

func parsePrefix(n v1beta2.IPNet) (netip.Prefix, *Reason) {
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, Why(BadAddress).Counting(len(n.IP))
	}
	p := netip.PrefixFrom(addr.Unmap(), int(n.PrefixLength))
	if !p.IsValid() {
		return netip.Prefix{}, Why(BadPrefixLength, addr.Unmap().String()).Counting(int(n.PrefixLength))
	}
	return p.Masked(), nil
}

// withPorts are the protocols whose services have ports.
var withPorts = map[v1beta2.Protocol]int{"": cloud.TCP, v1beta2.ProtocolTCP: cloud.TCP, v1beta2.ProtocolUDP: cloud.UDP, v1beta2.ProtocolSCTP: cloud.SCTP}

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
		r.refuse(Why(SourcePort).Counting(int(*s.SrcPort)))
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
		r.refuse(Why(IGMPDetails))
	case protocol == v1beta2.ProtocolIGMP:
		p.add(r, flow.Whole(2))
	case !known:
		r.refuse(Why(UnknownProtocol, string(protocol)))
	case s.Port == nil:
		p.add(r, flow.Whole(number))
	default:
		from, to := s.Port.IntVal, s.Port.IntVal
		if s.EndPort != nil {
			to = *s.EndPort
		}
		if from < 0 || to > 0xffff || from > to {
			r.refuse(Why(BadPortRange).Counting(int(from), int(to)))
			return
		}
		p.add(r, flow.Service{Protocol: number, From: uint16(from), To: uint16(to)})
	}
}

// add adds a service as far as the cloud can say it: types of ICMP that it does not know are not
// allowed, or dropped with all of the protocol, if the policy asks for that.
func (p parser) add(r *rule, s flow.Service) {
	if why := p.Unsupported(s); why != "" {
		whole := flow.Whole(s.Protocol)
		switch narrows := p.tighten && (s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6); {
		case narrows && r.Verdict == Allow:
			r.narrow(TypeNotAllowed, s)
			r.void = true
			return
		case narrows && r.Verdict == Drop && p.Unsupported(whole) == "":
			r.narrow(TypeDropped, s)
			s = whole
		default:
			r.refuse(Why(Unsupported).Quoting(why))
		}
	}
	r.Services = append(r.Services, s)
}

// Bound is a rule as it applies to one kind of VM: named ports are resolved.
type Bound struct {
	*rule
	services []flow.Service
	any      bool // the rule is not restricted to services
	// resolved is true if a port of the member has one of the rule's names, whether or not its
	// number is among the services anyway.
	resolved bool
}

// bound is the rule with what it says of ports by number.
func (r *rule) bound() *Bound {
	return &Bound{rule: r, services: r.Services, any: len(r.Services) == 0 && len(r.Named) == 0 && !r.void}
}

func (b *Bound) matches(s flow.Service) bool {
	return b.any || slices.ContainsFunc(b.services, func(o flow.Service) bool { return o.Covers(s) })
}

// Concerns reports whether the rule may match some packets of a service.
func (b *Bound) Concerns(s flow.Service) bool {
	return b.any || s.Protocol == cloud.AnyProtocol || slices.ContainsFunc(b.services, s.MayOverlap)
}
