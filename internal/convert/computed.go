package convert

import (
	"iter"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// Delta converts what a Commit changed into what the store publishes.
func Delta(d *policy.Delta) watchstore.Changes {
	return watchstore.Changes{
		AddressGroups:   groupChanges(policy.AddressGroup, d.AddressGroups),
		AppliedToGroups: groupChanges(policy.AppliedToGroup, d.AppliedToGroups),
		Policies:        policyChanges(d.Policies),
	}
}

func groupChanges(role policy.GroupRole, list []policy.GroupDelta) []watchstore.GroupChange {
	var out []watchstore.GroupChange
	for i := range list {
		out = append(out, groupChange(role, &list[i], nil))
	}
	return out
}

func policyChanges(list []policy.PolicyDelta) []watchstore.PolicyChange {
	var out []watchstore.PolicyChange
	for i := range list {
		out = append(out, policyChange(&list[i]))
	}
	return out
}

// partSize is the number of changes in a part.
const partSize = 1000

// Parts is Delta for Store.PublishParts, part by part; a part is good until the next one. The zero
// Parts is ready to use. It may be used again and again, by one goroutine at a time, and keeps the
// memory of small changes for the next.
type Parts struct {
	groups   []watchstore.GroupChange
	policies []watchstore.PolicyChange
	// changes are what all is to go through; each is all.
	changes *compute.Changes
	each    iter.Seq[watchstore.Changes]
}

// memberRoom is where the members of many groups are listed side by side; nil lists each by itself.
type memberRoom struct{ rest []watchstore.Member }

// The number of members for which there is room at a time, the length of the longest list that is
// made there, and the number of groups from which on that is done: a list is kept as long as any
// other in the same room.
const (
	roomyMembers = 1000
	longList     = 16
	manyGroups   = 1000
)

func (r *memberRoom) list(n int) []watchstore.Member {
	if r == nil || n > longList {
		return make([]watchstore.Member, n)
	}
	if len(r.rest) < n {
		r.rest = make([]watchstore.Member, roomyMembers)
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

// Of returns the parts of what a Commit changed, to be gone through once.
func (p *Parts) Of(c *compute.Changes) iter.Seq[watchstore.Changes] {
	if p.each == nil {
		p.each = p.all
	}
	p.changes = c
	return p.each
}

func (p *Parts) all(yield func(watchstore.Changes) bool) {
	c := p.changes
	p.changes = nil
	var room *memberRoom
	if _, addressGroups, appliedToGroups, _ := c.Size(); addressGroups+appliedToGroups >= manyGroups {
		room = &memberRoom{}
	}
	// A caller that panics gives no list back.
	for _, role := range []policy.GroupRole{policy.AddressGroup, policy.AppliedToGroup} {
		part := p.groups[:0]
		p.groups = nil
		for g := range c.Groups(role) {
			if part = append(part, groupChange(role, g, room)); len(part) == partSize {
				if !yield(groupsOf(role, part)) {
					return
				}
				clear(part)
				part = part[:0]
			}
		}
		if len(part) > 0 && !yield(groupsOf(role, part)) {
			return
		}
		p.groups = kept(part)
	}
	part := p.policies[:0]
	p.policies = nil
	for x := range c.Policies() {
		if part = append(part, policyChange(x)); len(part) == partSize {
			if !yield(watchstore.Changes{Policies: part}) {
				return
			}
			clear(part)
			part = part[:0]
		}
	}
	if len(part) > 0 && !yield(watchstore.Changes{Policies: part}) {
		return
	}
	p.policies = kept(part)
}

func groupsOf(role policy.GroupRole, part []watchstore.GroupChange) watchstore.Changes {
	if role == policy.AddressGroup {
		return watchstore.Changes{AddressGroups: part}
	}
	return watchstore.Changes{AppliedToGroups: part}
}

// keptPart is the number of changes for which memory is kept.
const keptPart = 64

// kept is the memory of a part for the next one; nil if it is too large.
func kept[T any](part []T) []T {
	clear(part)
	if cap(part) > keptPart {
		return nil
	}
	return part[:0]
}

func policyChange(p *policy.PolicyDelta) watchstore.PolicyChange {
	return watchstore.PolicyChange{
		Name: p.Policy.Source.UID, Source: (*computed)(p.Policy), Removed: p.Change == policy.Removed,
		SpanAdded: p.SpanAdded, SpanRemoved: p.SpanRemoved, SpanNumber: p.SpanNumber,
	}
}

// computed makes policies as enforcers receive them, when somebody asks for them.
type computed policy.ComputedPolicy

// Identity implements watchstore.PolicySource.
func (c *computed) Identity(room *watchstore.PolicyRoom) *v1beta2.NetworkPolicy {
	return identity((*policy.ComputedPolicy)(c), room)
}

// NetworkPolicy implements watchstore.PolicySource.
func (c *computed) NetworkPolicy(room *watchstore.PolicyRoom) *v1beta2.NetworkPolicy {
	return policyIn(room, (*policy.ComputedPolicy)(c))
}

// groupChange converts a change of a group of a role, with members in a room.
func groupChange(role policy.GroupRole, g *policy.GroupDelta, room *memberRoom) watchstore.GroupChange {
	members := peers
	if role == policy.AppliedToGroup {
		members = applied
	}
	return watchstore.GroupChange{
		Name: g.Name, UID: types.UID(g.UID), Deleted: g.Change == policy.Removed,
		Added: members(g.Added, room), Removed: members(g.Removed, room), SpanAdded: g.SpanAdded, SpanRemoved: g.SpanRemoved, SpanNumber: g.SpanNumber,
	}
}

func peers(in []*policy.Member, room *memberRoom) []watchstore.Member {
	if len(in) == 0 {
		return nil
	}
	out := room.list(len(in))
	for i, m := range in {
		out[i] = (*peerMember)(m)
	}
	return out
}

func applied(in []*policy.Member, room *memberRoom) []watchstore.Member {
	if len(in) == 0 {
		return nil
	}
	out := room.list(len(in))
	for i, m := range in {
		out[i] = (*appliedMember)(m)
	}
	return out
}

// peerMember and appliedMember are members as the engine holds them, in groups of the two roles.
type (
	peerMember    policy.Member
	appliedMember policy.Member
)

// Reference implements watchstore.Member.
func (m *peerMember) Reference() (kind watchstore.MemberKind, namespace, name string) {
	return reference(&m.EntityRef)
}

// Reference implements watchstore.Member.
func (m *appliedMember) Reference() (kind watchstore.MemberKind, namespace, name string) {
	return reference(&m.EntityRef)
}

func reference(m *policy.EntityRef) (kind watchstore.MemberKind, namespace, name string) {
	switch m.Kind {
	case policy.KindExternalEntity:
		return watchstore.KindExternalEntity, m.Namespace, m.Name
	case policy.KindPod:
		return watchstore.KindPod, m.Namespace, m.Name
	case policy.KindNode:
		return watchstore.KindNode, "", m.Name
	case policy.KindService:
		return watchstore.KindService, m.Namespace, m.Name
	}
	return watchstore.KindNone, "", "" // a remote peer is reported by its addresses only
}

// Place implements watchstore.Member.
func (m *peerMember) Place() (host string, everywhere bool) { return "", false }

// Place implements watchstore.Member.
func (m *appliedMember) Place() (host string, everywhere bool) { return m.Host, m.Everywhere }

// Shape implements watchstore.Member.
func (m *peerMember) Shape() (addresses, ports int) { return len(m.IPs), portBytes(m.Ports) }

// Shape implements watchstore.Member.
func (m *appliedMember) Shape() (addresses, ports int) { return 0, portBytes(m.Ports) }

func portBytes(ports []policy.NamedPort) (n int) {
	for i := range ports {
		n += watchstore.PortBytes + len(ports[i].Name)
	}
	return n
}

// Address implements watchstore.Member.
func (m *peerMember) Address(i int) [16]byte { return m.IPs[i].As16() }

// Address implements watchstore.Member.
func (m *appliedMember) Address(int) [16]byte { return [16]byte{} }

// Fill implements watchstore.Member.
func (m *peerMember) Fill(to *v1beta2.GroupMember, room *watchstore.Room) {
	if m.Kind == policy.KindPod && len(m.IPs) == 1 {
		to.Ports = namedPorts(m.Ports)
		room.PodAt(to, m.Namespace, m.Name, m.IPs[0].As16())
		return
	}
	*to = GroupMember(policy.AddressGroup, (*policy.Member)(m))
}

// Fill implements watchstore.Member.
func (m *appliedMember) Fill(to *v1beta2.GroupMember, room *watchstore.Room) {
	if m.Kind == policy.KindPod {
		to.Ports = namedPorts(m.Ports)
		room.Pod(to, m.Namespace, m.Name)
		return
	}
	*to = GroupMember(policy.AppliedToGroup, (*policy.Member)(m))
}

// GroupMember converts a member of a computed group of the role.
func GroupMember(role policy.GroupRole, whole *policy.Member) v1beta2.GroupMember {
	m := whole.As(role)
	out := v1beta2.GroupMember{Ports: namedPorts(m.Ports)}
	switch m.Kind {
	case policy.KindExternalEntity:
		out.ExternalEntity = &v1beta2.ExternalEntityReference{Name: m.Name, Namespace: m.Namespace}
	case policy.KindPod:
		out.Pod = &v1beta2.PodReference{Name: m.Name, Namespace: m.Namespace}
	case policy.KindNode:
		out.Node = &v1beta2.NodeReference{Name: m.Name}
	case policy.KindRemote: // reported by its addresses only
	case policy.KindService:
		out.Service = &v1beta2.ServiceReference{Name: m.Name, Namespace: m.Namespace}
	}
	for _, ip := range m.IPs {
		out.IPs = append(out.IPs, address(ip))
	}
	return out
}

func namedPorts(in []policy.NamedPort) []v1beta2.NamedPort {
	var out []v1beta2.NamedPort
	for _, p := range in {
		out = append(out, v1beta2.NamedPort{Port: p.Port, Name: p.Name, Protocol: v1beta2.Protocol(p.Protocol)})
	}
	return out
}

// identity is the policy without what it says.
func identity(p *policy.ComputedPolicy, room *watchstore.PolicyRoom) *v1beta2.NetworkPolicy {
	room.Source = v1beta2.NetworkPolicyReference{
		Type: v1beta2.NetworkPolicyType(p.Source.Kind), Namespace: p.Source.Namespace, Name: p.Source.Name, UID: types.UID(p.Source.UID),
	}
	out := &room.Policy
	*out = v1beta2.NetworkPolicy{SourceRef: &room.Source}
	out.Name, out.UID, out.Generation = p.Source.UID, types.UID(p.Source.UID), p.Generation
	return out
}

// ComputedPolicy converts a computed policy.
func ComputedPolicy(p *policy.ComputedPolicy) *v1beta2.NetworkPolicy {
	return policyIn(&watchstore.PolicyRoom{}, p)
}

// policyIn converts a computed policy in a room.
func policyIn(room *watchstore.PolicyRoom, p *policy.ComputedPolicy) *v1beta2.NetworkPolicy {
	out := identity(p, room)
	out.AppliedToGroups, out.Priority, out.TierPriority = p.AppliedToGroups, p.Priority, p.TierPriority
	if rules := denials(p.Rules); rules != nil {
		out.Rules = rules
		return out
	}
	room.Rules = slices.Grow(room.Rules[:0], len(p.Rules))[:len(p.Rules)]
	clear(room.Rules)
	for i := range p.Rules {
		fillRule(&room.Rules[i], &p.Rules[i])
	}
	out.Rules = room.Rules
	return out
}

// denyAll are the deny-all rules of both directions, without logging and with. They are never
// modified: most Namespaces have a policy that says nothing else.
var denyAll = [2][2]v1beta2.NetworkPolicyRule{
	{{Direction: v1beta2.DirectionIn}, {Direction: v1beta2.DirectionOut}},
	{{Direction: v1beta2.DirectionIn, EnableLogging: true}, {Direction: v1beta2.DirectionOut, EnableLogging: true}},
}

// denials returns the shared form of rules that are nothing but deny-all; nil if they are not.
func denials(rules []policy.ComputedRule) []v1beta2.NetworkPolicyRule {
	if len(rules) == 0 || len(rules) > 2 || !isDenial(&rules[0]) {
		return nil
	}
	all := &denyAll[0]
	if rules[0].EnableLogging {
		all = &denyAll[1]
	}
	switch ingress := rules[0].Direction == policy.Ingress; {
	case len(rules) == 1 && ingress:
		return all[0:1:1]
	case len(rules) == 1:
		return all[1:2:2]
	case ingress && isDenial(&rules[1]) && rules[1].Direction == policy.Egress && rules[1].EnableLogging == rules[0].EnableLogging:
		return all[:]
	}
	return nil
}

// isDenial reports whether a rule says no more than that all is denied.
func isDenial(r *policy.ComputedRule) bool {
	return r.Action == "" && r.Priority == 0 && len(r.AddressGroups)+len(r.IPBlocks)+len(r.FQDNs)+len(r.ToServices) == 0 &&
		len(r.Services)+len(r.AppliedToGroups)+len(r.L7Protocols) == 0 && r.Name == "" && r.LogLabel == ""
}

// fillRule writes a rule into a zero one: it is large, and copying it would take longer.
func fillRule(out *v1beta2.NetworkPolicyRule, r *policy.ComputedRule) {
	out.Direction, out.Priority, out.EnableLogging = v1beta2.Direction(r.Direction), r.Priority, r.EnableLogging
	out.AppliedToGroups, out.Name, out.LogLabel = r.AppliedToGroups, r.Name, r.LogLabel
	if r.Direction == policy.Ingress {
		fillPeer(&out.From, r)
	} else {
		fillPeer(&out.To, r)
	}
	if r.Action != "" {
		out.Action = (*v1beta2.RuleAction)(&r.Action) // neither is ever modified
	}
	for i := range r.Services {
		out.Services = append(out.Services, computedService(&r.Services[i]))
	}
	for _, l := range r.L7Protocols {
		var x v1beta2.L7Protocol
		if l.HTTP != nil {
			x.HTTP = &v1beta2.HTTPProtocol{Host: l.HTTP.Host, Method: l.HTTP.Method, Path: l.HTTP.Path}
		}
		if l.TLS != nil {
			x.TLS = &v1beta2.TLSProtocol{SNI: l.TLS.SNI}
		}
		out.L7Protocols = append(out.L7Protocols, x)
	}
}

func fillPeer(out *v1beta2.NetworkPolicyPeer, p *policy.ComputedRule) {
	out.AddressGroups, out.FQDNs = p.AddressGroups, p.FQDNs
	for _, b := range p.IPBlocks {
		block := v1beta2.IPBlock{CIDR: prefix(b.CIDR)}
		for _, e := range b.Except {
			block.Except = append(block.Except, prefix(e))
		}
		out.IPBlocks = append(out.IPBlocks, block)
	}
	for _, s := range p.ToServices {
		out.ToServices = append(out.ToServices, v1beta2.ServiceReference{Name: s.Name, Namespace: s.Namespace})
	}
}

func computedService(s *policy.ServiceMatch) v1beta2.Service {
	out := v1beta2.Service{
		EndPort: s.EndPort, SrcPort: s.SrcPort, SrcEndPort: s.SrcEndPort,
		ICMPType: s.ICMPType, ICMPCode: s.ICMPCode, IGMPType: s.IGMPType, GroupAddress: s.GroupAddress,
	}
	if s.Protocol != "" {
		p := v1beta2.Protocol(s.Protocol)
		out.Protocol = &p
	}
	if s.Port != nil {
		port := intstr.FromInt32(s.Port.Number)
		if s.Port.Name != "" {
			port = intstr.FromString(s.Port.Name)
		}
		out.Port = &port
	}
	return out
}

// address writes an address as 16 bytes, an IPv4 address as ::ffff:a.b.c.d.
func address(a netip.Addr) v1beta2.IPAddress {
	b := a.As16()
	return b[:]
}

func prefix(p netip.Prefix) v1beta2.IPNet {
	return v1beta2.IPNet{IP: address(p.Addr()), PrefixLength: int32(p.Bits())}
}
