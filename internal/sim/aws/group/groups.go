package group

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// CreateSecurityGroup makes a group with the default egress rules: everything to 0.0.0.0/0 and, if
// the VPC has an IPv6 block, to ::/0.
func (r Groups) CreateSecurityGroup(in aws.CreateSecurityGroupInput) (aws.SecurityGroup, error) {
	var out aws.SecurityGroup
	err := r.s.Mutate("CreateSecurityGroup", func(now time.Time) ([]string, error) {
		vpc, err := r.s.VPC(in.VPCID, now)
		if err != nil {
			return nil, err
		}
		if err := checkNewGroup(in); err != nil {
			return nil, err
		}
		inVPC := 0
		for _, g := range r.s.Data.Groups {
			inVPC++
			if g.VPCID == vpc.ID && strings.EqualFold(g.Name, in.Name) {
				return nil, aws.Refuse("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", in.Name, vpc.ID)
			}
		}
		if inVPC >= r.s.Quotas().GroupsPerRegion {
			return nil, aws.Refuse("SecurityGroupLimitExceeded", "The maximum number of security groups has been reached.")
		}
		if err := r.s.CheckNewTags(in.Tags); err != nil {
			return nil, err
		}
		g := r.s.NewGroup(vpc, in.Name, in.Description, now)
		g.Tags = in.Tags.Clone()
		r.s.Data.Groups[g.ID] = g
		out = g.Clone()
		return []string{g.ID}, nil
	})
	return out, err
}

func checkNewGroup(in aws.CreateSecurityGroupInput) error {
	const valid = "are strings less than 256 characters from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*"
	switch {
	case in.Name == "":
		return aws.Refuse("MissingParameter", "The request must contain the parameter GroupName")
	case in.Description == "":
		return aws.Refuse("MissingParameter", "The request must contain the parameter GroupDescription")
	case strings.EqualFold(in.Name, aws.DefaultGroup):
		return aws.Refuse("InvalidGroup.Reserved", "The security group '%s' is reserved", in.Name)
	case strings.HasPrefix(in.Name, "sg-"):
		return aws.InvalidValue("Invalid security group name. Group names may not be in the format sg-*")
	case !aws.ValidDescription(in.Name):
		return aws.InvalidValue("Invalid security group name. Valid names %s", valid)
	case !aws.ValidDescription(in.Description):
		return aws.InvalidValue("Invalid security group description. Valid descriptions %s", valid)
	}
	return nil
}

// DeleteSecurityGroup deletes a group by id, or by name in the default VPC, and returns its id.
// DependencyViolation if an interface holds it or another group of the VPC references it;
// references from peered VPCs become stale.
func (r Groups) DeleteSecurityGroup(id, name string) (deleted string, err error) {
	err = r.s.Mutate("DeleteSecurityGroup", func(now time.Time) ([]string, error) {
		g, err := r.group(id, name, now)
		if err != nil {
			return nil, err
		}
		if g.Name == aws.DefaultGroup {
			return nil, aws.Refuse("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", g.ID)
		}
		if r.inUse(g) {
			return nil, aws.Refuse("DependencyViolation", "resource %s has a dependent object", g.ID)
		}
		delete(r.s.Data.Groups, g.ID)
		deleted = g.ID
		return []string{g.ID}, nil
	})
	return deleted, err
}

func (r Groups) inUse(g *aws.SecurityGroup) bool {
	for _, n := range r.s.Data.NICs {
		if n.HasGroup(g.ID) {
			return true
		}
	}
	for _, other := range r.s.Data.Groups {
		if other == g || other.VPCID != g.VPCID {
			continue
		}
		for i := range other.Rules {
			if p := other.Rules[i].Group; p != nil && p.GroupID == g.ID {
				return true
			}
		}
	}
	elsewhere := false
	r.s.Neighbours(func(d *aws.Resources) { elsewhere = elsewhere || refers(d, g.VPCID, g.ID) })
	return elsewhere
}

// Groups are the calls about security groups and their rules.
type Groups struct{ s *store.Site }

// GroupsAt returns the calls on a site.
func GroupsAt(s *store.Site) Groups { return Groups{s} }

// SecurityGroupReferences is DescribeSecurityGroupReferences.
func (r Groups) SecurityGroupReferences(ids ...string) ([]aws.GroupReference, error) {
	groups, err := r.SecurityGroups(ids...)
	if err != nil {
		return nil, err
	}
	var out []aws.GroupReference
	r.s.Read(func(time.Time) {
		for _, g := range groups {
			for _, id := range slices.Sorted(maps.Keys(r.s.Peerings())) {
				p := r.s.Peerings()[id]
				if p.Status != aws.PeeringActive || p.Requester.Region != p.Accepter.Region {
					continue
				}
				far := p.Accepter.VPCID
				switch g.VPCID {
				case p.Requester.VPCID:
				case far:
					far = p.Requester.VPCID
				default:
					continue
				}
				if r.referredFrom(far, g.ID) {
					out = append(out, aws.GroupReference{GroupID: g.ID, VPCID: far, PeeringID: p.ID})
				}
			}
		}
	})
	return out, nil
}

// referredFrom reports whether any group in a VPC, of any account, has a rule that references a
// group.
func (r Groups) referredFrom(vpc, group string) (found bool) {
	r.s.Everywhere(func(d *aws.Resources) { found = found || refers(d, vpc, group) })
	return found
}

// refers reports whether a group in a VPC has a rule that references a group.
func refers(d *aws.Resources, vpc, group string) bool {
	for _, g := range d.Groups {
		if g.VPCID == vpc && slices.ContainsFunc(g.Rules, func(x aws.SecurityGroupRule) bool { return x.Group != nil && x.Group.GroupID == group }) {
			return true
		}
	}
	return false
}

// SecurityGroups is DescribeSecurityGroups.
func (r Groups) SecurityGroups(ids ...string) (out []aws.SecurityGroup, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("sg", r.s.VisibleGroups(), ids, func(g *aws.SecurityGroup) bool { return store.Seen(g.Visible, now) },
			func(g *aws.SecurityGroup) aws.SecurityGroup {
				c := g.Clone()
				for i := range c.Rules {
					r.s.FillPeering(&c.Rules[i])
				}
				return c
			})
	})
	return out, err
}

// SecurityGroupRules is DescribeSecurityGroupRules.
func (r Groups) SecurityGroupRules(ids ...string) (out []aws.SecurityGroupRule, err error) {
	r.s.Read(func(now time.Time) {
		all := map[string]*aws.SecurityGroupRule{}
		for _, g := range r.s.Data.Groups {
			for i := range g.Rules {
				if store.Seen(g.Visible, now) {
					all[g.Rules[i].ID] = &g.Rules[i]
				}
			}
		}
		out, err = store.ByID("sgr", all, ids, func(*aws.SecurityGroupRule) bool { return true }, func(x *aws.SecurityGroupRule) aws.SecurityGroupRule {
			c := x.Clone()
			r.s.FillPeering(&c)
			return c
		})
	})
	return out, err
}
