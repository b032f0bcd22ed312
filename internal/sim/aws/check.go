package aws

import (
	"net/netip"
	"slices"
)

// region checks one region of a State. vpcs and subnets are those that other accounts share with
// it.
func (c *checker) region(r *RegionState, vpcs map[string]*VPC, subnets map[string]*Subnet) {
	for i := range r.VPCs {
		v := &r.VPCs[i]
		c.id("vpc", v.ID)
		vpcs[v.ID] = v
		if len(v.CIDRs) == 0 {
			c.bad("%s: expected at least one address block", v.ID)
		}
		for _, b := range v.CIDRs {
			if !b.Prefix.IsValid() || b.Prefix != b.Prefix.Masked() {
				c.bad("%s: address block %s is not canonical", v.ID, b.Prefix)
			}
		}
	}
	for i := range r.Subnets {
		s := &r.Subnets[i]
		c.id("subnet", s.ID)
		subnets[s.ID] = s
		if vpcs[s.VPCID] == nil {
			c.bad("%s: there is no VPC %s", s.ID, s.VPCID)
		}
	}
	lists := map[string]bool{}
	for i := range r.PrefixLists {
		p := &r.PrefixLists[i]
		c.id("pl", p.ID)
		lists[p.ID] = true
		if p.Family != "IPv4" && p.Family != "IPv6" || len(p.Versions) == 0 {
			c.bad("%s: expected family IPv4 or IPv6 and at least one version", p.ID)
		}
	}
	groups := c.groups(r, vpcs, lists)
	instances := map[string]*Instance{}
	for i := range r.Instances {
		x := &r.Instances[i]
		c.id("i", x.ID)
		instances[x.ID] = x
		if x.State != Terminated && (vpcs[x.VPCID] == nil || subnets[x.SubnetID] == nil) {
			c.bad("%s: there is no VPC %q or no subnet %q", x.ID, x.VPCID, x.SubnetID)
		}
	}
	c.fabric(&r.FabricState, vpcs, subnets)
	c.services(r, subnets)
	for i := range r.NetworkInterfaces {
		c.nic(&r.NetworkInterfaces[i], subnets, groups, instances)
	}
}

func (c *checker) groups(r *RegionState, vpcs map[string]*VPC, lists map[string]bool) map[string]*SecurityGroup {
	groups := map[string]*SecurityGroup{}
	names := map[[2]string]bool{}
	for i := range r.SecurityGroups {
		g := &r.SecurityGroups[i]
		c.id("sg", g.ID)
		groups[g.ID] = g
		if vpcs[g.VPCID] == nil {
			c.bad("%s: there is no VPC %s", g.ID, g.VPCID)
		}
		if g.Name == "" || names[[2]string{g.VPCID, g.Name}] {
			c.bad("%s: expected a name that is unique in %s, not %q", g.ID, g.VPCID, g.Name)
		}
		names[[2]string{g.VPCID, g.Name}] = true
		have := map[RuleKey]bool{}
		for k := range g.Rules {
			x := &g.Rules[k]
			c.id("sgr", x.ID)
			c.rule(g, x, lists)
			if have[x.Key()] {
				c.bad("%s: rule %q appears twice", g.ID, x)
			}
			have[x.Key()] = true
		}
	}
	for i := range r.VPCs {
		if id := r.VPCs[i].ID; !names[[2]string{id, DefaultGroup}] {
			c.bad("%s: it has no group named default", id)
		}
	}
	return groups
}

func (c *checker) rule(g *SecurityGroup, x *SecurityGroupRule, lists map[string]bool) {
	if p, ok := canonicalProtocol(x.Protocol); !ok || p != x.Protocol {
		c.bad("%s of %s: protocol %q is not canonical", x.ID, g.ID, x.Protocol)
		return
	}
	from, to, err := ports(x.Protocol, &x.FromPort, &x.ToPort)
	if err != nil || from != x.FromPort || to != x.ToPort {
		c.bad("%s of %s: ports %d-%d do not fit protocol %s", x.ID, g.ID, x.FromPort, x.ToPort, x.Protocol)
	}
	peers := 0
	if x.CIDR.IsValid() {
		peers++
		if x.CIDR != x.CIDR.Masked() {
			c.bad("%s of %s: block %s is not canonical", x.ID, g.ID, x.CIDR)
		}
	}
	if x.PrefixListID != "" {
		peers++
		if !lists[x.PrefixListID] {
			c.bad("%s of %s: there is no prefix list %s", x.ID, g.ID, x.PrefixListID)
		}
	}
	if x.Group != nil {
		peers++
		if !WellFormed("sg", x.Group.GroupID) || !accountID.MatchString(x.Group.UserID) {
			c.bad("%s of %s: group reference %q of account %q is malformed", x.ID, g.ID, x.Group.GroupID, x.Group.UserID)
		}
	}
	if peers != 1 {
		c.bad("%s of %s: expected one peer, there are %d", x.ID, g.ID, peers)
	}
	if x.GroupID != g.ID {
		c.bad("%s: it is in %s but says it is of %s", x.ID, g.ID, x.GroupID)
	}
}

func (c *checker) nic(n *NetworkInterface, subnets map[string]*Subnet, groups map[string]*SecurityGroup, instances map[string]*Instance) {
	c.id("eni", n.ID)
	if s := subnets[n.SubnetID]; s == nil || s.VPCID != n.VPCID {
		c.bad("%s: there is no subnet %s in VPC %s", n.ID, n.SubnetID, n.VPCID)
	}
	if len(n.Groups) == 0 && !n.MayHoldNone() {
		c.bad("%s: expected at least one security group", n.ID)
	}
	for _, name := range n.Groups {
		if g := groups[name.ID]; g == nil || g.VPCID != n.VPCID || g.Name != name.Name {
			c.bad("%s: there is no security group %s (%s) in VPC %s", n.ID, name.ID, name.Name, n.VPCID)
		}
	}
	primaries := 0
	for _, p := range n.PrivateIPs {
		if !validAddr(p.Addr) || !p.Addr.Is4() {
			c.bad("%s: private address %s is not an IPv4 address", n.ID, p.Addr)
		}
		if p.Primary {
			primaries++
		}
	}
	if len(n.PrivateIPs) > 0 && (primaries != 1 || !n.PrivateIPs[0].Primary) {
		c.bad("%s: expected one primary address, the first one", n.ID)
	}
	if slices.ContainsFunc(n.IPv6, func(a netip.Addr) bool { return !validAddr(a) || !a.Is6() }) {
		c.bad("%s: %v are not all IPv6 addresses", n.ID, n.IPv6)
	}
	for _, p := range n.Prefixes {
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
			c.bad("%s: delegated block %s is not canonical", n.ID, p)
		}
	}
	if a := n.Attachment; a != nil && a.InstanceID != "" && instances[a.InstanceID] == nil {
		c.bad("%s: it is attached to %s, which is not there", n.ID, a.InstanceID)
	}
}
