package aws

import (
	"maps"
	"slices"
)

func cloneVPC(v *VPC) VPC {
	c := *v
	c.CIDRs = slices.Clone(v.CIDRs)
	c.Tags = maps.Clone(v.Tags)
	return c
}

func cloneSubnet(s *Subnet) Subnet {
	c := *s
	c.IPv6 = slices.Clone(s.IPv6)
	c.SharedWith = slices.Clone(s.SharedWith)
	c.Tags = maps.Clone(s.Tags)
	return c
}

func cloneNIC(n *NetworkInterface) NetworkInterface {
	c := *n
	c.PrivateIPs = slices.Clone(n.PrivateIPs)
	c.IPv6 = slices.Clone(n.IPv6)
	c.Prefixes = slices.Clone(n.Prefixes)
	c.Groups = slices.Clone(n.Groups)
	if n.Attachment != nil {
		a := *n.Attachment
		c.Attachment = &a
	}
	c.Tags = maps.Clone(n.Tags)
	return c
}

func cloneInstance(i *Instance) Instance {
	c := *i
	c.Tags = maps.Clone(i.Tags)
	c.NetworkInterfaces = nil
	return c
}

func cloneRule(r *SecurityGroupRule) SecurityGroupRule {
	c := *r
	if r.Group != nil {
		g := *r.Group
		c.Group = &g
	}
	c.Tags = maps.Clone(r.Tags)
	return c
}

func cloneGroup(g *SecurityGroup) SecurityGroup {
	c := *g
	c.Rules = make([]SecurityGroupRule, len(g.Rules))
	for i := range g.Rules {
		c.Rules[i] = cloneRule(&g.Rules[i])
	}
	c.Tags = maps.Clone(g.Tags)
	return c
}

func clonePeering(p *PeeringConnection) PeeringConnection {
	c := *p
	c.Requester.CIDRs = slices.Clone(p.Requester.CIDRs)
	c.Accepter.CIDRs = slices.Clone(p.Accepter.CIDRs)
	c.Tags = maps.Clone(p.Tags)
	return c
}

func clonePrefixList(p *PrefixList) PrefixList {
	c := *p
	c.Versions = make([][]PrefixListEntry, len(p.Versions))
	for i := range p.Versions {
		c.Versions[i] = slices.Clone(p.Versions[i])
	}
	c.Tags = maps.Clone(p.Tags)
	return c
}
