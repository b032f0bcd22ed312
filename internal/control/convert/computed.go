package convert

import (
	"iter"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/policy"
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
	conv := members{role: role}
	for i := range list {
		out = append(out, conv.change(&list[i]))
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

// Parts is Delta for Store.PublishParts. A part is good until the next one.
func Parts(c *policy.Changes) iter.Seq[watchstore.Changes] {
	return func(yield func(watchstore.Changes) bool) {
		groups := func(role policy.GroupRole, wrap func([]watchstore.GroupChange) watchstore.Changes) bool {
			conv := members{role: role}
			return parts(c.Groups(role), conv.change, func(part []watchstore.GroupChange) bool { return yield(wrap(part)) })
		}
		_ = groups(policy.AddressGroup, func(part []watchstore.GroupChange) watchstore.Changes { return watchstore.Changes{AddressGroups: part} }) &&
			groups(policy.AppliedToGroup, func(part []watchstore.GroupChange) watchstore.Changes {
				return watchstore.Changes{AppliedToGroups: part}
			}) &&
			parts(c.Policies(), policyChange, func(part []watchstore.PolicyChange) bool { return yield(watchstore.Changes{Policies: part}) })
	}
}

// parts converts one by one and yields in parts; false means that no more is wanted.
func parts[From, To any](from iter.Seq[*From], convert func(*From) To, yield func([]To) bool) bool {
	var part []To
	for x := range from {
		part = append(part, convert(x))
		if len(part) == partSize {
			if !yield(part) {
				return false
			}
			clear(part)
			part = part[:0]
		}
	}
	return len(part) == 0 || yield(part)
}

func policyChange(p *policy.PolicyDelta) watchstore.PolicyChange {
	return watchstore.PolicyChange{
		Name: p.Policy.Source.UID, Source: (*computed)(p.Policy), Removed: p.Change == policy.Removed,
		SpanAdded: p.SpanAdded, SpanRemoved: p.SpanRemoved,
	}
}

// computed makes policies as enforcers receive them, when somebody asks for them.
type computed policy.ComputedPolicy

// NetworkPolicy implements watchstore.PolicySource.
func (c *computed) NetworkPolicy() *v1beta2.NetworkPolicy {
	return ComputedPolicy((*policy.ComputedPolicy)(c))
}

// members converts members of groups of one role: one that is in several groups once.
type members struct {
	role policy.GroupRole
	// few are the first, pages all the others by serial number.
	few   []convertedMember
	pages []*[memberPage]convertedMember
}

type convertedMember struct {
	from *policy.Member
	to   *watchstore.Member
}

const (
	// maxFew is the number of members for which there is no page.
	maxFew     = 16
	memberPage = 256
)

func (c *members) change(g *policy.GroupDelta) watchstore.GroupChange {
	return watchstore.GroupChange{
		Name: g.Name, UID: types.UID(g.UID), Deleted: g.Change == policy.Removed,
		Added: c.convert(g.Added), Removed: c.convert(g.Removed), SpanAdded: g.SpanAdded, SpanRemoved: g.SpanRemoved,
	}
}

func (c *members) convert(in []*policy.Member) []*watchstore.Member {
	if len(in) == 0 {
		return nil
	}
	out := make([]*watchstore.Member, len(in))
	for i, m := range in {
		out[i] = c.one(m)
	}
	return out
}

func (c *members) one(m *policy.Member) *watchstore.Member {
	for i := range c.few {
		if c.few[i].from == m {
			return c.few[i].to
		}
	}
	if len(c.few) < maxFew {
		c.few = append(c.few, convertedMember{m, storeMember(c.role, m)})
		return c.few[len(c.few)-1].to
	}
	number, at := int(m.Serial/memberPage), m.Serial%memberPage
	if number >= len(c.pages) {
		c.pages = append(c.pages, make([]*[memberPage]convertedMember, max(number+1-len(c.pages), len(c.pages)))...)
	}
	if c.pages[number] == nil {
		c.pages[number] = new([memberPage]convertedMember)
	}
	known := &c.pages[number][at]
	if known.from != m {
		*known = convertedMember{m, storeMember(c.role, m)}
	}
	return known.to
}

// podPeer and appliedPod are members, of address groups and of applied-to groups, together with all
// that they point at: most are Pods with one address.
type podPeer struct {
	watchstore.Member
	pod   v1beta2.PodReference
	ips   [1]v1beta2.IPAddress
	bytes [16]byte
}

type appliedPod struct {
	watchstore.Member
	pod v1beta2.PodReference
}

func storeMember(role policy.GroupRole, m *policy.Member) *watchstore.Member {
	switch {
	case m.Kind == policy.KindPod && role == policy.AppliedToGroup:
		x := &appliedPod{pod: v1beta2.PodReference{Name: m.Name, Namespace: m.Namespace}}
		x.Pod, x.Ports, x.Host = &x.pod, namedPorts(m.Ports), m.Host
		return &x.Member
	case m.Kind == policy.KindPod && len(m.IPs) == 1:
		x := &podPeer{pod: v1beta2.PodReference{Name: m.Name, Namespace: m.Namespace}, bytes: m.IPs[0].As16()}
		x.ips[0] = x.bytes[:]
		x.Pod, x.Ports, x.IPs = &x.pod, namedPorts(m.Ports), x.ips[:]
		return &x.Member
	}
	as := m.As(role)
	return &watchstore.Member{GroupMember: GroupMember(role, m), Host: as.Host, Everywhere: as.Everywhere}
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
	case policy.KindRemote: // its addresses are all that is told of it
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

// ComputedPolicy converts a computed policy.
func ComputedPolicy(p *policy.ComputedPolicy) *v1beta2.NetworkPolicy {
	out := &v1beta2.NetworkPolicy{
		ObjectMeta:      metav1.ObjectMeta{Name: p.Source.UID, UID: types.UID(p.Source.UID), Generation: p.Generation},
		AppliedToGroups: p.AppliedToGroups, Priority: p.Priority, TierPriority: p.TierPriority,
		SourceRef: &v1beta2.NetworkPolicyReference{
			Type: v1beta2.NetworkPolicyType(p.Source.Kind), Namespace: p.Source.Namespace, Name: p.Source.Name, UID: types.UID(p.Source.UID),
		},
	}
	if len(p.Rules) == 1 && isDenial(&p.Rules[0]) {
		out.Rules = denyAll(p.Rules[0].Direction, p.Rules[0].EnableLogging)
		return out
	}
	if len(p.Rules) > 0 {
		out.Rules = make([]v1beta2.NetworkPolicyRule, len(p.Rules))
	}
	for i := range p.Rules {
		out.Rules[i] = computedRule(&p.Rules[i])
	}
	return out
}

// denials are the deny-all rules of Kubernetes NetworkPolicies, without logging and with. Nobody
// modifies them: most Namespaces have a policy that says nothing else.
var denials = [2][2]v1beta2.NetworkPolicyRule{
	{{Direction: v1beta2.DirectionIn}, {Direction: v1beta2.DirectionIn, EnableLogging: true}},
	{{Direction: v1beta2.DirectionOut}, {Direction: v1beta2.DirectionOut, EnableLogging: true}},
}

// isDenial reports whether a rule says no more than that all is denied.
func isDenial(r *policy.ComputedRule) bool {
	nothing := func(p *policy.ComputedPeer) bool {
		return len(p.AddressGroups)+len(p.IPBlocks)+len(p.FQDNs)+len(p.ToServices) == 0
	}
	return r.Action == "" && r.Priority == 0 && nothing(&r.From) && nothing(&r.To) && len(r.Services)+len(r.AppliedToGroups)+len(r.L7Protocols) == 0 &&
		r.Name == "" && r.LogLabel == ""
}

// denyAll returns the one deny-all rule of a direction.
func denyAll(d policy.Direction, logging bool) []v1beta2.NetworkPolicyRule {
	of := &denials[0]
	if d == policy.Egress {
		of = &denials[1]
	}
	if logging {
		return of[1:2:2]
	}
	return of[0:1:1]
}

func computedRule(r *policy.ComputedRule) v1beta2.NetworkPolicyRule {
	out := v1beta2.NetworkPolicyRule{
		Direction: v1beta2.Direction(r.Direction), From: computedPeer(&r.From), To: computedPeer(&r.To), Priority: r.Priority,
		EnableLogging: r.EnableLogging, AppliedToGroups: r.AppliedToGroups, Name: r.Name, LogLabel: r.LogLabel,
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
	return out
}

func computedPeer(p *policy.ComputedPeer) v1beta2.NetworkPolicyPeer {
	out := v1beta2.NetworkPolicyPeer{AddressGroups: p.AddressGroups, FQDNs: p.FQDNs}
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
	return out
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
