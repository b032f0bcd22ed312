package nft

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// baselineTier is the first tier priority that comes after Kubernetes NetworkPolicies.
const baselineTier = 253

// maxRanges is up to how many ranges of addresses a rule holds by itself; more are a set.
const maxRanges = 4

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
		what = "domain names as peers cannot be enforced by the agent"
	case ReasonL7:
		what = "layer 7 protocols cannot be enforced by the agent"
	case ReasonServices:
		what = "Services as peers cannot be enforced on a VM"
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

// Failsafe is a flow that no policy can cut.
type Failsafe struct {
	Name      string
	Direction Direction
	// Protocol is TCP or UDP. SourcePort is 0 for any.
	Protocol   uint8
	SourcePort uint16
	Port       uint16
	// CIDRs are where the other end may be.
	CIDRs []netip.Prefix
}

// Input is what Compile makes a Program from.
type Input struct {
	Computed enforcer.Computed
	Failsafe []Failsafe
}

// Result is what Compile returns.
type Result struct {
	Program *Program
	// Refusals are sorted by policy.
	Refusals []Refusal
	// Ambiguous tells that several entities have the key, and so all policies are refused.
	Ambiguous bool
	// Isolated says, by direction, that what no rule allows is dropped.
	Isolated [2]bool
}

// Compiler makes Programs and keeps what it has made of groups, so that a change costs what it touches. The zero value is ready. It is not
// safe for concurrent use.
type Compiler struct {
	groups map[*v1beta2.AddressGroup]*groupParts
}

// groupParts are what an address group is in the sets.
type groupParts struct {
	// id is that of its members.
	id      ID
	members [2]*Part
	ports   map[PartKey]*Part
}

// Compile makes the Program of a host. Everything that comes to the host or leaves it is the host's traffic, by whatever address.
func (c *Compiler) Compile(in Input) Result {
	w := &work{compiler: c, failsafe: in.Failsafe, groups: map[string]*v1beta2.AddressGroup{}, applied: map[string]bool{},
		program: &Program{Chains: map[string]*Chain{}, Parts: map[PartKey]*Part{}, Ranges: map[SetName][]Range{}}}
	for _, g := range in.Computed.AddressGroups {
		w.groups[g.Name] = g
	}
	refs := map[string]bool{}
	for _, g := range in.Computed.AppliedToGroups {
		for _, m := range g.GroupMembers {
			refs[memberName(m)] = true
			w.applied[g.Name] = true
			w.ports = append(w.ports, m.Ports...)
		}
	}
	var accepted []*v1beta2.NetworkPolicy
	for _, p := range in.Computed.Policies {
		refusal := w.check(p)
		if len(refs) > 1 {
			refusal = &Refusal{Policy: p.Name, Reason: ReasonManyEndpoints}
		}
		if refusal != nil {
			w.refusals = append(w.refusals, *refusal)
			continue
		}
		accepted = append(accepted, p)
	}
	out := Result{Program: w.program, Refusals: w.refusals, Ambiguous: len(refs) > 1}
	for _, d := range []Direction{Ingress, Egress} {
		out.Isolated[d] = w.direction(d, accepted)
	}
	c.keep(w.used)
	return out
}

func memberName(m v1beta2.GroupMember) string {
	switch {
	case m.ExternalEntity != nil:
		return "ExternalEntity " + m.ExternalEntity.Namespace + "/" + m.ExternalEntity.Name
	case m.Pod != nil:
		return "Pod " + m.Pod.Namespace + "/" + m.Pod.Name
	case m.Node != nil:
		return "Node " + m.Node.Name
	case m.Service != nil:
		return "Service " + m.Service.Namespace + "/" + m.Service.Name
	}
	return ""
}

// keep forgets what was made of groups that are not used any more.
func (c *Compiler) keep(used map[*v1beta2.AddressGroup]*groupParts) { c.groups = used }

// work is one run of Compile.
type work struct {
	compiler *Compiler
	program  *Program
	refusals []Refusal
	failsafe []Failsafe
	groups   map[string]*v1beta2.AddressGroup
	used     map[*v1beta2.AddressGroup]*groupParts
	// applied are the applied-to groups that the host is in, ports its named ports.
	applied map[string]bool
	ports   []v1beta2.NamedPort
}

// ranked is a rule with its policy.
type ranked struct {
	policy *v1beta2.NetworkPolicy
	rule   *v1beta2.NetworkPolicyRule
}

// stage is one of the three of evaluation: tiers, Kubernetes, baseline.
func (r ranked) stage() int {
	switch {
	case r.policy.TierPriority == nil:
		return 1
	case *r.policy.TierPriority >= baselineTier:
		return 2
	}
	return 0
}

// compare orders rules as they are evaluated. The order of equals, which Antrea leaves open, is that of the policy engine.
func (r ranked) compare(s ranked) int {
	value := func(r ranked) (tier int32, priority float64) {
		if r.policy.TierPriority != nil {
			tier = *r.policy.TierPriority
		}
		if r.policy.Priority != nil && r.policy.TierPriority != nil {
			priority = *r.policy.Priority
		}
		return tier, priority
	}
	tier1, priority1 := value(r)
	tier2, priority2 := value(s)
	a, b := reference(r.policy), reference(s.policy)
	return cmp.Or(
		cmp.Compare(r.stage(), s.stage()), cmp.Compare(tier1, tier2), cmp.Compare(priority1, priority2), cmp.Compare(r.rule.Priority, s.rule.Priority),
		cmp.Compare(a.Type, b.Type), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID),
	)
}

func reference(p *v1beta2.NetworkPolicy) v1beta2.NetworkPolicyReference {
	if p.SourceRef == nil {
		return v1beta2.NetworkPolicyReference{Name: p.Name, UID: p.UID}
	}
	return *p.SourceRef
}

// applies reports whether the rule is applied to the host.
func (w *work) applies(r ranked) bool {
	groups := r.rule.AppliedToGroups
	if len(groups) == 0 {
		groups = r.policy.AppliedToGroups
	}
	return slices.ContainsFunc(groups, func(g string) bool { return w.applied[g] })
}

// direction makes the chains of one direction, and reports whether it is isolated.
func (w *work) direction(d Direction, policies []*v1beta2.NetworkPolicy) (isolated bool) {
	wire := v1beta2.DirectionIn
	if d == Egress {
		wire = v1beta2.DirectionOut
	}
	var rules []ranked
	var kubernetes bool
	for _, p := range policies {
		for i := range p.Rules {
			r := ranked{p, &p.Rules[i]}
			if r.rule.Direction != wire || !w.applies(r) {
				continue
			}
			rules = append(rules, r)
			kubernetes = kubernetes || r.stage() == 1
			isolated = isolated || r.stage() == 1 || r.rule.Action != nil && *r.rule.Action == v1beta2.RuleActionAllow
		}
	}
	slices.SortStableFunc(rules, ranked.compare)
	base := &Chain{Rules: []Rule{
		{Matches: []Match{{Kind: MatchDead}}, Action: Drop},
		{Matches: []Match{{Kind: MatchEstablished}}, Action: Accept},
		{Matches: []Match{{Kind: MatchLoopback, Source: d == Ingress}}, Action: Accept},
		{Matches: []Match{{Kind: MatchNeighbour}}, Action: Accept},
	}}
	w.program.Chains[d.String()] = base
	if len(rules) == 0 {
		return false
	}
	for _, f := range w.failsafe {
		if f.Direction == d {
			base.Rules = append(base.Rules, f.rules()...)
		}
	}
	for _, f := range []Family{IPv4, IPv6} {
		l := lane{work: w, direction: d, family: f, isolated: isolated}
		l.compile(rules, kubernetes)
		base.Rules = append(base.Rules, Rule{Matches: []Match{{Kind: MatchFamily, Lo: uint16(f)}}, Action: Goto, Target: l.chain("")})
	}
	return isolated
}

func (f Failsafe) rules() []Rule {
	var out []Rule
	for _, c := range f.CIDRs {
		c = c.Masked()
		family := IPv4
		if c.Addr().Is6() {
			family = IPv6
		}
		m := []Match{{Kind: MatchFamily, Lo: uint16(family)}, {Kind: MatchProtocol, Lo: uint16(f.Protocol)}, {Kind: MatchPort, Lo: f.Port, Hi: f.Port}}
		if f.SourcePort != 0 {
			m = append(m, Match{Kind: MatchSourcePort, Lo: f.SourcePort, Hi: f.SourcePort})
		}
		if c.Bits() > 0 {
			r := rangeOf(c)
			m = append(m, Match{Kind: MatchPeer, From: r.From, To: r.To, Source: f.Direction == Ingress})
		}
		out = append(out, Rule{Matches: m, Action: Accept, Origin: Origin{Kind: OriginFailsafe, Name: f.Name}})
	}
	return out
}

// lane is one direction of one family.
type lane struct {
	*work
	direction Direction
	family    Family
	isolated  bool
}

// chain names a chain of the lane.
func (l *lane) chain(suffix string) string {
	return fmt.Sprintf("%s%d%s", [...]string{"in", "out"}[l.direction], l.family, suffix)
}

// compile makes the chains of the lane: one for the tiers, from which Pass leads to one for the rest, and one for the end. Rules that
// follow one another and are of one policy are a chain of their own, so that a change of a policy writes little.
func (l *lane) compile(rules []ranked, kubernetes bool) {
	tiers, rest := &Chain{}, &Chain{}
	l.program.Chains[l.chain("")], l.program.Chains[l.chain("-pass")] = tiers, rest
	end := Rule{Action: Accept, Origin: Origin{Kind: OriginNative}}
	if l.isolated {
		end = Rule{Action: Drop, Origin: Origin{Kind: OriginIsolation}}
	}
	l.program.Chains[l.chain("-end")] = &Chain{Rules: []Rule{end}}
	for i := 0; i < len(rules); {
		run := i + 1
		for run < len(rules) && rules[run].policy == rules[i].policy {
			run++
		}
		into := tiers
		if rules[i].stage() > 0 {
			into = rest
		}
		if rules[i].stage() < 2 || !kubernetes {
			l.segment(into, rules[i:run])
		}
		i = run
	}
	tiers.Rules = append(tiers.Rules, Rule{Action: Goto, Target: l.chain("-pass")})
	rest.Rules = append(rest.Rules, Rule{Action: Goto, Target: l.chain("-end")})
}

// segment makes a chain of rules of one policy and jumps there.
func (l *lane) segment(into *Chain, rules []ranked) {
	var out []Rule
	for _, r := range rules {
		out = append(out, l.rule(r)...)
	}
	if len(out) == 0 {
		return
	}
	id := sum(rules[0].policy.Name, fmt.Sprint(rules[0].rule.Priority))
	name := l.chain("-" + hex.EncodeToString(id[:16]))
	l.program.Chains[name] = &Chain{Rules: out}
	into.Rules = append(into.Rules, Rule{Action: Jump, Target: name})
}

// rule makes the rules of the kernel for one of a policy: one for each combination of a peer and a service.
func (l *lane) rule(r ranked) []Rule {
	if r.rule.Action == nil {
		return nil // it only isolates
	}
	peer := &r.rule.From
	if l.direction == Egress {
		peer = &r.rule.To
	}
	services, named := l.services(r.rule.Services)
	origin := Origin{Kind: OriginPolicy, Policy: reference(r.policy), Name: r.rule.Name, Index: r.rule.Priority}
	var out []Rule
	for _, p := range l.peers(peer) {
		for _, s := range services {
			out = append(out, l.act(slices.Concat(s, p), *r.rule.Action, r.stage(), origin)...)
		}
	}
	for _, s := range named { // of the peer's members, which so are peers
		for _, group := range peer.AddressGroups {
			m := slices.Clone(s.matches)
			key := l.namedPort(group, s.name)
			m = append(m, Match{Kind: MatchNamedPort, Set: key.Set, ID: key.ID, Source: l.direction == Ingress})
			out = append(out, l.act(m, *r.rule.Action, r.stage(), origin)...)
		}
	}
	return out
}

// act makes the rules that act on what matches.
func (l *lane) act(m []Match, action v1beta2.RuleAction, stage int, origin Origin) []Rule {
	one := func(a Action, target string) []Rule {
		return []Rule{{Matches: m, Action: a, Target: target, Origin: origin}}
	}
	switch action {
	case v1beta2.RuleActionAllow:
		return one(Accept, "")
	case v1beta2.RuleActionDrop:
		return one(Drop, "")
	case v1beta2.RuleActionPass:
		if stage == 2 {
			return one(Goto, l.chain("-end"))
		}
		return one(Goto, l.chain("-pass"))
	}
	i := slices.IndexFunc(m, func(m Match) bool { return m.Kind == MatchProtocol })
	switch {
	case i < 0: // a match of any protocol has no ports
		reset := append([]Match{{Kind: MatchProtocol, Lo: uint16(TCP)}}, m...)
		return append([]Rule{{Matches: reset, Action: RejectReset, Origin: origin}}, one(RejectICMP, "")...)
	case m[i].Lo == uint16(TCP):
		return one(RejectReset, "")
	}
	return one(RejectICMP, "")
}

// named is a service with a port that has a name at the peer.
type named struct {
	matches []Match
	name    string
}

// services returns what each service matches in this family; those whose port has a name at the peer apart.
func (l *lane) services(in []v1beta2.Service) (plain [][]Match, byName []named) {
	if len(in) == 0 {
		return [][]Match{nil}, nil
	}
	for i := range in {
		s := &in[i]
		switch {
		case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolICMP:
			protocol := ICMP
			if l.family == IPv6 {
				protocol = ICMPv6
			}
			plain = append(plain, octets(protocol, s.ICMPType, s.ICMPCode))
		case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolIGMP:
			if l.family == IPv4 {
				m := octets(IGMP, s.IGMPType, nil)
				if a, err := netip.ParseAddr(s.GroupAddress); err == nil {
					m = append(m, Match{Kind: MatchIGMPGroup, From: a.Unmap()})
				}
				plain = append(plain, m)
			}
		default:
			for _, protocol := range protocols(s.Protocol) {
				m := []Match{{Kind: MatchProtocol, Lo: uint16(protocol)}}
				if s.SrcPort != nil {
					m = append(m, portMatch(MatchSourcePort, *s.SrcPort, s.SrcEndPort))
				}
				switch {
				case s.Port == nil:
					plain = append(plain, m)
				case s.Port.Type == intstr.Int:
					plain = append(plain, append(m, portMatch(MatchPort, s.Port.IntVal, s.EndPort)))
				case l.direction == Egress:
					byName = append(byName, named{m, s.Port.StrVal})
				default:
					for _, p := range l.ports {
						if p.Name == s.Port.StrVal && portProtocol(p) == protocol {
							plain = append(plain, append(slices.Clone(m), portMatch(MatchPort, p.Port, nil)))
						}
					}
				}
			}
		}
	}
	return plain, byName
}

func octets(protocol uint8, typ, code *int32) []Match {
	m := []Match{{Kind: MatchProtocol, Lo: uint16(protocol)}}
	if typ != nil {
		m = append(m, Match{Kind: MatchType, Lo: uint16(*typ)})
	}
	if code != nil {
		m = append(m, Match{Kind: MatchCode, Lo: uint16(*code)})
	}
	return m
}

func portMatch(kind MatchKind, first int32, last *int32) Match {
	m := Match{Kind: kind, Lo: uint16(first), Hi: uint16(first)}
	if last != nil {
		m.Hi = uint16(*last)
	}
	return m
}

func portProtocol(p v1beta2.NamedPort) uint8 {
	switch p.Protocol {
	case v1beta2.ProtocolUDP:
		return UDP
	case v1beta2.ProtocolSCTP:
		return SCTP
	case v1beta2.ProtocolTCP, "":
		return TCP
	}
	return 0
}

// protocols are those with ports that a service is about.
func protocols(p *v1beta2.Protocol) []uint8 {
	if p == nil {
		return []uint8{TCP, UDP, SCTP}
	}
	switch *p {
	case v1beta2.ProtocolTCP:
		return []uint8{TCP}
	case v1beta2.ProtocolUDP:
		return []uint8{UDP}
	case v1beta2.ProtocolSCTP:
		return []uint8{SCTP}
	}
	return nil
}
