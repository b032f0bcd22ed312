package policytest

import (
	"github.com/nephele-io/nephele/internal/policy"
)

// valid reports whether the group exists, parses, and nests one level at most.
func (o *oracle) valid(name policy.NamespacedName) bool {
	g, ok := o.w.Groups[name]
	if !ok {
		return false
	}
	var p oraclePolicy
	if len(g.IPBlocks) > 0 {
		blocks(&p, g.IPBlocks)
		return !p.invalid
	}
	for _, c := range g.ChildGroups {
		child := o.w.Groups[policy.NamespacedName{Namespace: name.Namespace, Name: c}]
		if len(child.ChildGroups) > 0 {
			return false
		}
	}
	if len(g.ChildGroups) == 0 && g.ServiceReference == nil {
		p.check(g.PodSelector, g.NamespaceSelector, g.ExternalEntitySelector, g.NodeSelector)
	}
	return !p.invalid
}

// picks returns the selections that make up a valid group.
func (o *oracle) picks(name policy.NamespacedName) []pick {
	if !o.valid(name) {
		return nil
	}
	g := o.w.Groups[name]
	switch {
	case len(g.IPBlocks) > 0:
		return nil
	case len(g.ChildGroups) > 0:
		var out []pick
		for _, c := range g.ChildGroups {
			out = append(out, o.picks(policy.NamespacedName{Namespace: name.Namespace, Name: c})...)
		}
		return out
	case g.ServiceReference != nil:
		s := o.w.Services[*g.ServiceReference]
		if len(s.Selector) == 0 {
			return []pick{{}}
		}
		return []pick{{namespace: g.ServiceReference.Namespace, pod: &policy.Selector{MatchLabels: s.Selector}}}
	case g.NodeSelector != nil:
		return []pick{{node: g.NodeSelector}}
	}
	return []pick{{name.Namespace, g.NamespaceSelector, g.PodSelector, g.ExternalEntitySelector, nil}}
}

// groupBlocks returns the ipBlocks of a valid group and its children.
func (o *oracle) groupBlocks(name policy.NamespacedName) []policy.CIDRBlock {
	if !o.valid(name) {
		return nil
	}
	g := o.w.Groups[name]
	if len(g.IPBlocks) > 0 {
		return blocks(&oraclePolicy{}, g.IPBlocks)
	}
	var out []policy.CIDRBlock
	for _, c := range g.ChildGroups {
		out = append(out, o.groupBlocks(policy.NamespacedName{Namespace: name.Namespace, Name: c})...)
	}
	return out
}

// fromGroup returns the computed group of a Group; nil if there is none.
func (o *oracle) fromGroup(role policy.GroupRole, name policy.NamespacedName) *oracleGroup {
	g := o.w.Groups[name]
	picks := o.picks(name)
	if !o.valid(name) || len(g.IPBlocks) > 0 || role == policy.AddressGroup && len(picks) == 0 {
		return nil
	}
	full := name.Name
	if name.Namespace != "" {
		full = name.Namespace + "/" + name.Name
	}
	// A policy is applied to the Nodes of a group that selects Nodes itself, not to Nodes of child
	// groups.
	nodes := role == policy.AddressGroup || len(g.ChildGroups) == 0
	return o.named(role, full, g.UID, func(e policy.Entity) bool {
		for _, s := range picks {
			if o.has(s, e) && (nodes || e.Kind != policy.KindNode) {
				return true
			}
		}
		return false
	})
}

// peer computes the peers of a rule.
func (o *oracle) peer(p *oraclePolicy, d policy.Direction, peers []policy.Peer, r policy.Rule) policy.ComputedPeer {
	var out policy.ComputedPeer
	add := func(g *oracleGroup) {
		out.AddressGroups = append(out.AddressGroups, p.use(policy.AddressGroup, g))
	}
	if len(peers) == 0 {
		if d == policy.Egress && len(r.ToServices) > 0 || r.NoPeers {
			return out
		}
		out.IPBlocks = blocks(p, []policy.IPBlock{{CIDR: "0.0.0.0/0"}, {CIDR: "::/0"}})
		for _, port := range r.Ports {
			if d == policy.Egress && port.Port != nil && port.Port.Name != "" && len(out.AddressGroups) == 0 {
				add(o.group(policy.AddressGroup, pick{nsSel: &policy.Selector{}}))
			}
		}
		return out
	}
	for _, x := range peers {
		switch {
		case x.IPBlock != nil:
			out.IPBlocks = append(out.IPBlocks, blocks(p, []policy.IPBlock{*x.IPBlock})...)
		case x.Group != "":
			name := policy.NamespacedName{Namespace: p.in.Namespace, Name: x.Group}
			out.IPBlocks = append(out.IPBlocks, o.groupBlocks(name)...)
			if g := o.fromGroup(policy.AddressGroup, name); g != nil {
				add(g)
			}
		case x.FQDN != "":
			out.FQDNs = append(out.FQDNs, x.FQDN)
			p.invalid = p.invalid || d == policy.Ingress
		case x.Networks != nil || x.DomainNames != nil:
			for _, n := range x.Networks {
				out.IPBlocks = append(out.IPBlocks, blocks(p, []policy.IPBlock{{CIDR: n}})...)
			}
			for _, n := range x.DomainNames {
				out.FQDNs = append(out.FQDNs, n)
				p.invalid = p.invalid || d == policy.Ingress
			}
		case x.ServiceAccount != nil:
			add(o.group(policy.AddressGroup, accountPick(x.ServiceAccount)))
		case x.NodeSelector != nil:
			p.check(x.NodeSelector)
			add(o.group(policy.AddressGroup, pick{node: x.NodeSelector}))
		default:
			p.check(x.NamespaceSelector, x.PodSelector, x.ExternalEntitySelector)
			add(o.group(policy.AddressGroup, pick{p.in.Namespace, x.NamespaceSelector, x.PodSelector, x.ExternalEntitySelector, nil}))
		}
	}
	return out
}

func blocks(p *oraclePolicy, in []policy.IPBlock) []policy.CIDRBlock {
	var out []policy.CIDRBlock
	for _, b := range in {
		whole, ok := cidr(b.CIDR)
		p.invalid = p.invalid || !ok
		block := policy.CIDRBlock{CIDR: whole}
		for _, e := range b.Except {
			part, ok := cidr(e)
			if !ok || !whole.IsValid() || !whole.Contains(part.Addr()) || part.Bits() <= whole.Bits() {
				p.invalid = true
				continue
			}
			block.Except = append(block.Except, part)
		}
		out = append(out, block)
	}
	return out
}

func services(p *oraclePolicy, r policy.Rule) []policy.ServiceMatch {
	var out []policy.ServiceMatch
	for _, port := range r.Ports {
		protocol := port.Protocol
		if protocol == "" && !port.AnyProtocol {
			protocol = policy.TCP
		}
		if port.Port != nil && port.Port.Name == "" && (port.Port.Number < 1 || port.Port.Number > 65535) {
			p.invalid = true
		}
		if port.EndPort != nil && (port.Port == nil || port.Port.Name != "" || *port.EndPort < port.Port.Number || *port.EndPort > 65535) {
			p.invalid = true
		}
		out = append(out, policy.ServiceMatch{
			Protocol: protocol, Port: port.Port, EndPort: port.EndPort, SrcPort: port.SourcePort, SrcEndPort: port.SourceEndPort,
		})
	}
	for _, proto := range r.Protocols {
		if proto.ICMP != nil {
			out = append(out, policy.ServiceMatch{Protocol: policy.ICMP, ICMPType: proto.ICMP.Type, ICMPCode: proto.ICMP.Code})
		}
		if proto.IGMP != nil {
			out = append(out, policy.ServiceMatch{Protocol: policy.IGMP, IGMPType: proto.IGMP.Type, GroupAddress: proto.IGMP.GroupAddress})
		}
	}
	return out
}
