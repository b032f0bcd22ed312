package nft

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// maxRanges is up to how many ranges of addresses a rule holds by itself; more are a set.
const maxRanges = 4

// Failsafe is a flow that no policy can cut.
type Failsafe struct {
	Name      string
	Direction ruleset.Direction
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
	// Failsafe are the failsafe flows of the host, not of Pods.
	Failsafe []Failsafe
	// Node is nil on a VM. Else the host is a Node, and its Pods are guarded as well.
	Node *Node
	// Names is what is known of domain names; nil if nothing is learned of them, and policies that
	// name some are refused.
	Names *Names
	// Services are where Services are reached, by "NAMESPACE/NAME", at least those that policies
	// have as peers; nil if none are known, and such policies are refused.
	Services map[string][]Frontend
	// Balanced is where connections to Services go, in a network of ours; nil if somebody else
	// leads them.
	Balanced *Balanced
}

// Frontend is a place where a Service is reached, before the proxy of Services leads on from there.
type Frontend struct {
	Address netip.Addr `json:"address"`
	// Protocol is TCP, UDP or SCTP.
	Protocol uint8  `json:"protocol"`
	Port     uint16 `json:"port"`
}

// Names is what is known of domain names.
type Names struct {
	// Addresses holds the addresses of names, and of all names that a pattern matches, sorted.
	Addresses map[string][]netip.Addr
	// Resolvers are the DNS servers whose answers are trusted.
	Resolvers []netip.Addr
}

// Result is what Compile returns.
type Result struct {
	Program *ruleset.Program
	// Refusals are sorted by policy.
	Refusals []Refusal
	// Ambiguous tells that several entities have the key, and so all policies are refused.
	Ambiguous bool
	// Isolated says of the host itself, by direction, that what no rule allows is dropped.
	Isolated [2]bool
	// Bypassed are policies that are in the Program, and that some Pods evade: one for each policy
	// and Pod, sorted by policy.
	Bypassed []Refusal
	// Pods and Classes count the Pods that are guarded, and what different rules they have.
	Pods, Classes int
}

// Compiler makes Programs and keeps what it has made of policies and groups, so that a change costs
// what it touches; objects are taken for unchanged if they are the same pointers. The zero value is
// ready. It is not safe for concurrent use.
type Compiler struct {
	// LogDenied makes rules that drop or reject, and isolation, log what they deny, also where no
	// policy wants that. It is set before the first Compile.
	LogDenied bool
	// Forwarded judges what only passes through the host as well: what comes to its published ports
	// as what comes to the host, and what its bridges send as what the host sends. It is for hosts
	// that are no Nodes, and set before the first Compile.
	Forwarded bool

	groups map[string]*groupParts
	// classes holds the classes of the last run, by their keys; that of the host itself has the key
	// "".
	classes map[string]*class
	// run counts the calls of Compile, gathered those in which groups have come or gone.
	run, gathered uint64
	// parts holds the parts of the last Program, segments what it has of policies, and refers
	// counts how many of these refer to each of parts, but for members of groups, which count
	// themselves.
	parts    *ruleset.Parts
	segments []*segment
	// spare is where the parts of the next Program go.
	spare  []*segment
	refers map[ruleset.PartKey]int
	// blocks holds the blocks of the last Program, by the names of their chains. least is from how
	// many segments on there are any; 0 is leastBlock.
	blocks map[string]*block
	least  int
	// asked are the chains of the last Program that judge by the port that was asked, by those that
	// they were made of.
	asked map[*ruleset.Chain]*ruleset.Chain
	// last is what was compiled last, in slices of the Compiler's own, and result what came of it.
	last   Input
	result Result
	// balanced is what was made of Services last.
	balanced *balanced
}

// class is what has the same rules: a host, or Pods.
type class struct {
	// name is in the names of its chains; empty for the host.
	name string
	// pods tells that they are Pods, allowIsolates that a direction is isolated by any rule that
	// allows something, as on a VM. Else only NetworkPolicies of Kubernetes isolate.
	pods, allowIsolates bool
	// policies are what was made of policies for a host that was as host says, by their names.
	policies map[string]*policyParts
	host     host
	run      uint64
}

// host is what rules depend on besides their policy and the groups that it names.
type host struct {
	// applied are the applied-to groups that the host is in, sorted, ports its named ports.
	applied []string
	ports   []v1beta2.NamedPort
}

// groupParts are what an address group is in the sets.
type groupParts struct {
	source *enforcer.AddressGroup
	// keys are the same for all versions of the group.
	keys *groupKeys
	// run is the last one that knew the group.
	run     uint64
	members [2]*ruleset.Part
	// ports holds the ports of members that have a name, by their keys.
	ports map[ruleset.PartKey]*namedPorts
}

// groupKeys are the keys of the members of a group, IPv4 and IPv6, to which rules point, and how
// many segments of the program refer to each. There are more references than anything else.
type groupKeys struct {
	group  string
	keys   [2]ruleset.PartKey
	refers [2]int32
}

func newGroupKeys(group string) *groupKeys {
	id := ruleset.IDOf("members", group)
	return &groupKeys{group: group, keys: [2]ruleset.PartKey{{Set: ruleset.Members4, ID: id}, {Set: ruleset.Members6, ID: id}}}
}

// namedPorts are the ports that members of a group have by a name.
type namedPorts struct {
	name string
	*ruleset.Part
}

// Compile makes the Program of a host. Everything that comes to the host or leaves it is the host's
// traffic, by whatever address; on a Node, what comes to the address of a Pod or leaves it is the
// Pod's.
func (c *Compiler) Compile(in Input) Result {
	if c.groups == nil {
		c.groups, c.classes, c.refers, c.blocks = map[string]*groupParts{}, map[string]*class{}, map[ruleset.PartKey]int{}, map[string]*block{}
	}
	c.run++
	w := &work{Compiler: c, failsafe: in.Failsafe, names: in.Names, services: in.Services, named: map[string]bool{},
		parts: ruleset.EditParts(c.parts), segments: c.spare, program: &ruleset.Program{
			Chains: make(map[string]*ruleset.Chain, len(c.segments)), Ranges: map[ruleset.SetName][]ruleset.Range{}, Dispatch: map[ruleset.SetName]*ruleset.Elements{}}}
	if c.onlyMembers(&in) {
		for i, g := range in.Computed.AddressGroups {
			if g != c.last.Computed.AddressGroups[i] {
				w.know(g)
			}
		}
		*w.program = *c.result.Program
		return w.done(in, c.result)
	}
	w.parts.Put(ruleset.PartKey{Set: ruleset.Members4, ID: ruleset.IDOf(asking)}, nil)
	w.parts.Put(ruleset.PartKey{Set: ruleset.Members6, ID: ruleset.IDOf(asking)}, nil)
	w.knowAll(in.Computed.AddressGroups)
	members := w.members(in)
	own := w.class("", members.host, in.Node == nil, false)
	accepted := make([]*v1beta2.NetworkPolicy, 0, len(in.Computed.Policies))
	for _, p := range in.Computed.Policies {
		refusal := w.check(w.policy(own, p))
		switch service := members.service(p); {
		case in.Node == nil && len(members.refs) > 1:
			refusal = &Refusal{Policy: p.Name, Reason: ReasonManyEndpoints}
		case refusal == nil && service != "":
			refusal = &Refusal{Policy: p.Name, Reason: ReasonAppliedToServices, Value: service}
		}
		if refusal != nil {
			w.refusals = append(w.refusals, *refusal)
			continue
		}
		accepted = append(accepted, p)
	}
	out := Result{Program: w.program, Refusals: w.refusals, Ambiguous: in.Node == nil && len(members.refs) > 1}
	parts := make([]*policyParts, 0, len(accepted))
	for _, p := range accepted {
		part := w.policy(own, p)
		parts = append(parts, part)
		w.named[""] = w.named[""] || part.names()
		w.igmp = w.igmp || part.igmp
	}
	for _, d := range []ruleset.Direction{ruleset.Ingress, ruleset.Egress} {
		out.Isolated[d] = w.direction(own, d, parts)
	}
	if w.Forwarded && in.Node == nil {
		w.forwarded()
	}
	if in.Node != nil {
		w.node(in.Node, members, accepted, &out)
		w.network(in.Node, in.Balanced)
	}
	if len(w.program.Names) > 0 {
		slices.Sort(w.program.Names)
		w.program.Names = slices.Compact(w.program.Names)
		w.hearResolvers(in.Node)
	}
	// So is what was made of classes and policies.
	maps.DeleteFunc(c.classes, func(_ string, x *class) bool { return x.run != c.run })
	for _, x := range c.classes {
		maps.DeleteFunc(x.policies, func(_ string, p *policyParts) bool { return p.run != c.run })
	}
	for _, s := range c.segments {
		if s.run != c.run {
			w.release(s)
		}
	}
	w.releaseBlocks()
	clear(c.segments)
	c.spare, c.segments = c.segments[:0], w.segments
	return w.done(in, out)
}

// knowAll takes in all groups. What was made of groups that are gone is forgotten, before it is
// looked which groups are known.
func (w *work) knowAll(groups []*enforcer.AddressGroup) {
	if last := w.last.Computed.AddressGroups; sameNames(groups, last) {
		for i, g := range groups {
			if g != last[i] {
				w.know(g)
			}
		}
		return
	}
	w.gathered++
	for _, g := range groups {
		w.know(g)
	}
	maps.DeleteFunc(w.groups, func(_ string, g *groupParts) bool { return g.run != w.run })
}

func sameNames(a, b []*enforcer.AddressGroup) bool {
	return slices.EqualFunc(a, b, func(a, b *enforcer.AddressGroup) bool { return a == b || a.GetName() == b.GetName() })
}

// onlyMembers reports whether nothing differs from what was compiled last but the members of
// address groups.
func (c *Compiler) onlyMembers(in *Input) bool {
	if c.result.Program == nil {
		return false
	}
	now, last := &in.Computed, &c.last.Computed
	names := func(a, b *Names) bool {
		return a == nil && b == nil || a != nil && b != nil && slices.Equal(a.Resolvers, b.Resolvers) &&
			maps.EqualFunc(a.Addresses, b.Addresses, func(x, y []netip.Addr) bool { return slices.Equal(x, y) })
	}
	return in.Node == c.last.Node && in.Balanced == c.last.Balanced && slices.Equal(now.Policies, last.Policies) && slices.Equal(now.AppliedToGroups, last.AppliedToGroups) &&
		slices.EqualFunc(in.Failsafe, c.last.Failsafe, Failsafe.equal) && names(in.Names, c.last.Names) && sameServices(in.Services, c.last.Services) &&
		sameNames(now.AddressGroups, last.AddressGroups)
}

func sameServices(a, b map[string][]Frontend) bool {
	return (a == nil) == (b == nil) && maps.EqualFunc(a, b, func(x, y []Frontend) bool { return slices.Equal(x, y) })
}

func (f Failsafe) equal(g Failsafe) bool {
	return f.Name == g.Name && f.Direction == g.Direction && f.Protocol == g.Protocol && f.SourcePort == g.SourcePort && f.Port == g.Port && slices.Equal(f.CIDRs, g.CIDRs)
}

// done ends a run: what it has made of parts is that of the program, and the next one begins with
// it.
func (w *work) done(in Input, out Result) Result {
	w.program.Parts = w.parts.Parts
	out.Program = w.program
	last := &w.last.Computed
	in.Computed = enforcer.Computed{Policies: append(last.Policies[:0], in.Computed.Policies...), AddressGroups: append(last.AddressGroups[:0], in.Computed.AddressGroups...),
		AppliedToGroups: append(last.AppliedToGroups[:0], in.Computed.AppliedToGroups...)}
	w.Compiler.parts, w.last, w.result = w.parts.Parts, in, out
	return out
}

// class returns a class, of the last run if it is as it was then.
func (w *work) class(key string, now host, allowIsolates, pods bool) *class {
	c := w.classes[key]
	if c == nil || !now.equal(c.host) || c.allowIsolates != allowIsolates {
		c = &class{host: now, pods: pods, allowIsolates: allowIsolates, policies: map[string]*policyParts{}}
		if key != "" {
			id := ruleset.Sum(key)
			c.name = "." + hex.EncodeToString(id[:8])
		}
		w.classes[key] = c
	}
	c.run = w.run
	return c
}

// membership has the members of applied-to groups on this host.
type membership struct {
	// refs are the members besides Pods and Services.
	refs map[string]bool
	// host is what the rules of the host itself depend on.
	host host
	// pods are what the parts of Pods depend on, by "NAMESPACE/NAME".
	pods map[string]*host
	// services are the Services in groups.
	services map[string]string
}

// service returns a Service that the policy is applied to, if there is one.
func (m *membership) service(p *v1beta2.NetworkPolicy) string {
	for _, g := range p.AppliedToGroups {
		if s := m.services[g]; s != "" {
			return s
		}
	}
	for i := range p.Rules {
		for _, g := range p.Rules[i].AppliedToGroups {
			if s := m.services[g]; s != "" {
				return s
			}
		}
	}
	return ""
}

// members finds the members of applied-to groups on this host. On a Node they are its Pods and the
// Node itself; on a VM every member is the VM.
func (w *work) members(in Input) *membership {
	out := &membership{refs: map[string]bool{}, pods: map[string]*host{}, services: map[string]string{}}
	join := func(h *host, group string, m *v1beta2.GroupMember) {
		if !slices.Contains(h.applied, group) {
			h.applied = append(h.applied, group)
		}
		h.ports = append(h.ports, m.Ports...)
	}
	for _, g := range in.Computed.AppliedToGroups {
		for i := range g.GroupMembers {
			m := &g.GroupMembers[i]
			switch {
			case m.Service != nil:
				out.services[g.Name] = m.Service.Namespace + "/" + m.Service.Name
			case in.Node != nil && m.Pod != nil:
				name := m.Pod.Namespace + "/" + m.Pod.Name
				if out.pods[name] == nil {
					out.pods[name] = &host{}
				}
				join(out.pods[name], g.Name, m)
			case in.Node != nil && m.Node == nil: // none of ours
			default:
				out.refs[memberName(*m)] = true
				join(&out.host, g.Name, m)
			}
		}
	}
	out.host.normalize()
	for _, h := range out.pods {
		h.normalize()
	}
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

// work is one run of Compile.
type work struct {
	*Compiler
	program  *ruleset.Program
	refusals []Refusal
	failsafe []Failsafe
	names    *Names
	services map[string][]Frontend
	// named are the classes, by their keys, that rules with domain names apply to, and podClass
	// are the keys of the classes of the Pods of a Node, in their order.
	named    map[string]bool
	podClass []string
	// igmp tells that a policy is about IGMP.
	igmp bool
	// parts holds the parts of the program, segments what is in it of policies.
	parts    *ruleset.PartsEdit
	segments []*segment
	// with and runs are used again for every direction.
	with []*policyParts
	runs []run
}

func reference(p *v1beta2.NetworkPolicy) v1beta2.NetworkPolicyReference {
	if p.SourceRef == nil {
		return v1beta2.NetworkPolicyReference{Name: p.Name, UID: p.UID}
	}
	return *p.SourceRef
}

// direction makes the chains of one direction of the host, and reports whether it is isolated.
func (w *work) direction(c *class, d ruleset.Direction, policies []*policyParts) (isolated bool) {
	base := &ruleset.Chain{Rules: []ruleset.Rule{
		{Matches: []ruleset.Match{{Kind: ruleset.MatchDead}}, Action: ruleset.Drop},
		{Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}}, Action: ruleset.Accept},
		{Matches: []ruleset.Match{{Kind: ruleset.MatchLoopback, Source: d == ruleset.Ingress}}, Action: ruleset.Accept},
	}}
	base.Rules = slices.Concat(base.Rules, keepsLink(ruleset.IPv6, d, !w.igmp), keepsLink(ruleset.IPv4, d, !w.igmp))
	w.program.Chains[d.String()] = base
	entries, isolated := w.lanes(c, d, policies)
	if entries == nil { // nothing follows that the other rules would spare a packet
		base.Rules = base.Rules[:2]
		return false
	}
	for _, f := range w.failsafe {
		if f.Direction == d {
			base.Rules = append(base.Rules, f.rules()...)
		}
	}
	for i, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		base.Rules = append(base.Rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(f)}}, Action: ruleset.Goto, Target: entries[i]})
	}
	return isolated
}

// lanes makes the chains of one direction of a class, and returns those that packets of IPv4 and
// IPv6 enter; none if no rule applies.
func (w *work) lanes(c *class, d ruleset.Direction, policies []*policyParts) (entries []string, isolated bool) {
	with := w.with[:0]
	var kubernetes bool
	for _, p := range policies {
		if len(p.rules[d]) > 0 {
			with = append(with, p)
			kubernetes = kubernetes || p.stage == 1
			isolated = isolated || p.isolates[d]
		}
	}
	if len(with) == 0 {
		return nil, false
	}
	w.with = with
	w.runs = order(w.runs[:0], d, with)
	runs := w.runs
	logged := isolationLog(d, runs, w.LogDenied)
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		l := lane{work: w, class: c, direction: d, family: f, isolated: isolated, logged: logged}
		l.compile(runs, kubernetes)
		entries = append(entries, l.chain(""))
	}
	return entries, isolated
}

// isolationLog is the origin of what is logged of the packets that isolation drops: the first
// policy that isolates and has a rule of the direction logged, or where all that is denied is told,
// the first that isolates.
func isolationLog(d ruleset.Direction, runs []run, denied bool) *ruleset.Origin {
	var first *ruleset.Origin
	for _, r := range runs {
		if !r.policy.isolates[d] {
			continue
		}
		origin := &ruleset.Origin{Kind: ruleset.OriginIsolation, Policy: r.policy.reference, Index: -1,
			Logged: ruleset.Logged{Direction: d, Action: v1beta2.RuleActionDrop, Unasked: true}}
		if denied && first == nil {
			first = origin
		}
		for _, rule := range r.policy.rules[d] {
			if rule.EnableLogging {
				origin.Logged.Label, origin.Logged.Unasked = rule.LogLabel, false
				return origin
			}
		}
	}
	return first
}

func (f Failsafe) rules() []ruleset.Rule {
	var out []ruleset.Rule
	for _, c := range f.CIDRs {
		c = c.Masked()
		family := ruleset.IPv4
		if c.Addr().Is6() {
			family = ruleset.IPv6
		}
		m := []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(family)}, {Kind: ruleset.MatchProtocol, Lo: uint16(f.Protocol)},
			{Kind: ruleset.MatchPort, Lo: f.Port, Hi: f.Port}}
		if f.SourcePort != 0 {
			m = append(m, ruleset.Match{Kind: ruleset.MatchSourcePort, Lo: f.SourcePort, Hi: f.SourcePort})
		}
		if c.Bits() > 0 {
			r := rangeOf(c)
			m = append(m, ruleset.Match{Kind: ruleset.MatchPeer, Peer: &r, Source: f.Direction == ruleset.Ingress})
		}
		out = append(out, ruleset.Rule{Matches: m, Action: ruleset.Accept, Origin: &ruleset.Origin{Kind: ruleset.OriginFailsafe, Name: f.Name}})
	}
	return out
}

// lane is one direction of one family.
type lane struct {
	// work is the compilation that it is of.
	work      *work
	class     *class
	direction ruleset.Direction
	family    ruleset.Family
	isolated  bool
	// logged says of which policy it is logged what isolation drops; nil for none.
	logged *ruleset.Origin
	// made is the segment that is being made.
	made *segment
}

// chain names a chain of the lane.
func (l *lane) chain(suffix string) string {
	return fmt.Sprintf("%s%d%s%s", [...]string{"in", "out"}[l.direction], l.family, l.class.name, suffix)
}

// compile makes the chains of the lane: one for the tiers, from which Pass leads to one for the
// rest, and one for the end. Rules that follow one another and are of one policy are a chain of
// their own, so that a change of a policy writes little.
func (l *lane) compile(runs []run, kubernetes bool) {
	end := ruleset.Rule{Action: ruleset.Accept, Origin: &ruleset.Origin{Kind: ruleset.OriginNative}}
	if l.isolated {
		end = ruleset.Rule{Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginIsolation}}
	}
	l.work.program.Chains[l.chain("-end")] = &ruleset.Chain{Rules: []ruleset.Rule{end}}
	if l.isolated && l.logged != nil {
		l.work.program.Chains[l.chain("-end")] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Log, Origin: l.logged}, end}}
	}
	first := len(l.work.segments)
	rest := -1 // is where the segments of the rest begin: stages are in order
	for _, r := range runs {
		if r.policy.stage > 0 && rest < 0 {
			rest = len(l.work.segments)
		}
		if r.policy.stage < 2 || !kubernetes {
			l.add(l.segment(r))
		}
	}
	if rest < 0 {
		rest = len(l.work.segments)
	}
	l.jumps(l.chain(""), l.work.segments[first:rest], l.chain("-pass"))
	l.jumps(l.chain("-pass"), l.work.segments[rest:], l.chain("-end"))
}

// jumps makes the chain that goes through segments, and then to another chain. It is that of the
// last program where that is the same.
func (l *lane) jumps(name string, segments []*segment, last string) {
	var rules []ruleset.Rule
	for len(segments) > 0 {
		n := blockLength(segments)
		if n >= cmp.Or(l.work.least, leastBlock) {
			rules = append(rules, l.block(segments[:n]))
		} else {
			n = max(n, 1)
			for _, s := range segments[:n] {
				rules = append(rules, ruleset.Rule{Action: ruleset.Jump, Target: s.name})
			}
		}
		segments = segments[n:]
	}
	rules = append(rules, ruleset.Rule{Action: ruleset.Goto, Target: last})
	if p := l.work.result.Program; p != nil && p.Chains[name] != nil && ruleset.SameRules(p.Chains[name].Rules, rules) {
		l.work.program.Chains[name] = p.Chains[name]
		return
	}
	l.work.program.Chains[name] = &ruleset.Chain{Rules: exact(rules)}
}

// segment returns the chain of a run, made now or before.
func (l *lane) segment(r run) *segment {
	key := segmentKey{l.direction, l.family, r.first, r.last}
	if s := r.policy.segments[key]; s != nil {
		return s
	}
	l.made = &segment{family: l.family}
	var out []ruleset.Rule
	for i, rule := range r.rules() {
		out = append(out, l.rule(r.policy, rule, &r.policy.origins[l.direction][r.first+i])...)
	}
	if len(out) > 0 {
		id := ruleset.Sum(r.policy.source.Name, fmt.Sprint(r.rules()[0].Priority))
		l.made.name, l.made.chain = l.chain("-"+hex.EncodeToString(id[:16])), &ruleset.Chain{Rules: exact(out)}
		l.made.opens, l.made.first = opens(out), beginsBlock(id)
	}
	l.made.members = exact(l.made.members)
	r.policy.segments[key] = l.made
	return l.made
}

// exact returns a list that has room for nothing more.
func exact[T any](list []T) []T { return append(make([]T, 0, len(list)), list...) }

// add puts a segment into the program, with what its rules refer to as that is now.
func (l *lane) add(s *segment) {
	if s.chain == nil {
		return
	}
	l.work.program.Chains[s.name] = s.chain
	maps.Copy(l.work.program.Ranges, s.ranges)
	for _, n := range s.names {
		l.work.program.Names = append(l.work.program.Names, n.group)
		l.work.parts.Put(*n.key, l.addressesOf(n))
	}
	for _, s := range s.services {
		l.work.parts.Put(*s.key, l.frontendsOf(s))
	}
	l.work.segments = append(l.work.segments, s)
	if s.run = l.work.run; s.live {
		return
	}
	s.live = true
	for r := range s.refs() {
		l.work.refers[*r.key]++
	}
	f := place(l.family)
	for i, k := range s.members {
		g := l.work.groups[k.group]
		s.members[i] = g.keys // the group may have been gone meanwhile
		g.keys.refers[f]++
		l.work.parts.Put(g.keys.keys[f], g.members[f])
	}
	for _, p := range s.ports {
		l.work.parts.Put(*p.key, l.portsOf(p))
	}
}

// release takes back what a segment refers to that is in no program any more.
func (w *work) release(s *segment) {
	s.live = false
	for r := range s.refs() {
		if w.refers[*r.key]--; w.refers[*r.key] == 0 {
			delete(w.refers, *r.key)
			w.parts.Put(*r.key, nil)
		}
	}
	f := place(s.family)
	for _, k := range s.members {
		if k.refers[f]--; k.refers[f] == 0 {
			w.parts.Put(k.keys[f], nil)
		}
	}
}
