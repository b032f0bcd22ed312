package aws

import (
	"maps"
	"slices"
)

// Clone returns a deep copy.
func (a *NetworkACL) Clone() NetworkACL {
	c := *a
	c.Associations = slices.Clone(a.Associations)
	c.Entries = slices.Clone(a.Entries)
	c.Tags = maps.Clone(a.Tags)
	return c
}

// Clone returns a deep copy.
func (v *VPC) Clone() VPC {
	c := *v
	c.CIDRs = slices.Clone(v.CIDRs)
	c.Tags = maps.Clone(v.Tags)
	return c
}

// Clone returns a deep copy.
func (s *Subnet) Clone() Subnet {
	c := *s
	c.IPv6 = slices.Clone(s.IPv6)
	c.SharedWith = slices.Clone(s.SharedWith)
	c.Tags = maps.Clone(s.Tags)
	return c
}

// Clone returns a deep copy.
func (n *NetworkInterface) Clone() NetworkInterface {
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

// Clone returns a deep copy without interfaces.
func (i *Instance) Clone() Instance {
	c := *i
	c.Tags = maps.Clone(i.Tags)
	c.NetworkInterfaces = nil
	return c
}

// Clone returns a deep copy.
func (r *SecurityGroupRule) Clone() SecurityGroupRule {
	c := *r
	if r.Group != nil {
		g := *r.Group
		c.Group = &g
	}
	c.Tags = maps.Clone(r.Tags)
	return c
}

// Clone returns a deep copy.
func (g *SecurityGroup) Clone() SecurityGroup {
	c := *g
	c.Rules = make([]SecurityGroupRule, len(g.Rules))
	for i := range g.Rules {
		c.Rules[i] = g.Rules[i].Clone()
	}
	c.Tags = maps.Clone(g.Tags)
	return c
}

// Clone returns a deep copy.
func (p *PeeringConnection) Clone() PeeringConnection {
	c := *p
	c.Requester.CIDRs = slices.Clone(p.Requester.CIDRs)
	c.Accepter.CIDRs = slices.Clone(p.Accepter.CIDRs)
	c.Tags = maps.Clone(p.Tags)
	return c
}

// Clone returns a deep copy.
func (p *PrefixList) Clone() PrefixList {
	c := *p
	c.Versions = make([][]PrefixListEntry, len(p.Versions))
	for i := range p.Versions {
		c.Versions[i] = slices.Clone(p.Versions[i])
	}
	c.Tags = maps.Clone(p.Tags)
	return c
}

// Clone returns a deep copy.
func (g *InternetGateway) Clone() InternetGateway {
	c := *g
	c.Tags = maps.Clone(g.Tags)
	return c
}

// Clone returns a deep copy.
func (t *RouteTable) Clone() RouteTable {
	c := *t
	c.Associations = slices.Clone(t.Associations)
	c.Routes = slices.Clone(t.Routes)
	c.Tags = maps.Clone(t.Tags)
	return c
}

// Clone returns a copy.
func (t Tags) Clone() Tags { return maps.Clone(t) }

// Clone returns a deep copy.
func (t *LaunchTemplate) Clone() LaunchTemplate {
	c := *t
	c.Versions = nil
	for _, v := range t.Versions {
		v.Data = maps.Clone(v.Data)
		c.Versions = append(c.Versions, v)
	}
	c.Tags = maps.Clone(t.Tags)
	return c
}
