package aws

import (
	"net/netip"
	"strings"
	"time"
)

// defaultGroup is the reserved name of the group that each VPC has from its creation.
const defaultGroup = "default"

// everywhere are the blocks of the egress rules that a new group has.
var everywhere = [2]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// CreateSecurityGroup makes a group with the default egress rules: everything to 0.0.0.0/0 and, if
// the VPC has an IPv6 block, to ::/0.
func (r Groups) CreateSecurityGroup(in CreateSecurityGroupInput) (SecurityGroup, error) {
	var out SecurityGroup
	err := r.mutate("CreateSecurityGroup", func(now time.Time) ([]string, error) {
		vpc, err := Networks(r).vpcFor(in.VPCID, now)
		if err != nil {
			return nil, err
		}
		if err := checkNewGroup(in); err != nil {
			return nil, err
		}
		inVPC := 0
		for _, g := range r.data.groups {
			inVPC++
			if g.VPCID == vpc.ID && strings.EqualFold(g.Name, in.Name) {
				return nil, refuse("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", in.Name, vpc.ID)
			}
		}
		if inVPC >= r.w.quotas(r.at.account).GroupsPerRegion {
			return nil, refuse("SecurityGroupLimitExceeded", "The maximum number of security groups has been reached.")
		}
		if err := r.checkNewTags(in.Tags); err != nil {
			return nil, err
		}
		g := r.newGroup(vpc, in.Name, in.Description, now)
		g.Tags = cloneTags(in.Tags)
		r.data.groups[g.ID] = g
		out = cloneGroup(g)
		return []string{g.ID}, nil
	})
	return out, err
}

func checkNewGroup(in CreateSecurityGroupInput) error {
	const valid = "are strings less than 256 characters from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*"
	switch {
	case in.Name == "":
		return refuse("MissingParameter", "The request must contain the parameter GroupName")
	case in.Description == "":
		return refuse("MissingParameter", "The request must contain the parameter GroupDescription")
	case strings.EqualFold(in.Name, defaultGroup):
		return refuse("InvalidGroup.Reserved", "The security group '%s' is reserved", in.Name)
	case strings.HasPrefix(in.Name, "sg-"):
		return invalidValue("Invalid security group name. Group names may not be in the format sg-*")
	case !validDescription(in.Name):
		return invalidValue("Invalid security group name. Valid names %s", valid)
	case !validDescription(in.Description):
		return invalidValue("Invalid security group description. Valid descriptions %s", valid)
	}
	return nil
}

// newGroup makes a group with the default egress rules; the caller stores it.
func (r Groups) newGroup(vpc *VPC, name, description string, now time.Time) *SecurityGroup {
	g := &SecurityGroup{
		ID: r.w.newID("sg"), Account: r.at.account, VPCID: vpc.ID, Name: name, Description: description,
		Visible: now.Add(r.w.visibility),
	}
	for _, p := range everywhere {
		if p.Addr().Is4() || vpc.hasIPv6() {
			g.Rules = append(g.Rules, SecurityGroupRule{
				ID: r.w.newID("sgr"), GroupID: g.ID, Account: g.Account, Egress: true,
				Protocol: AllProtocols, FromPort: -1, ToPort: -1, CIDR: p,
			})
		}
	}
	return g
}

// DeleteSecurityGroup deletes a group by id, or by name in the default VPC, and returns its id.
// DependencyViolation if an interface holds it or another group of the VPC references it;
// references from peered VPCs become stale.
func (r Groups) DeleteSecurityGroup(id, name string) (deleted string, err error) {
	err = r.mutate("DeleteSecurityGroup", func(now time.Time) ([]string, error) {
		g, err := r.group(id, name, now)
		if err != nil {
			return nil, err
		}
		if g.Name == defaultGroup {
			return nil, refuse("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", g.ID)
		}
		if r.inUse(g) {
			return nil, refuse("DependencyViolation", "resource %s has a dependent object", g.ID)
		}
		delete(r.data.groups, g.ID)
		deleted = g.ID
		return []string{g.ID}, nil
	})
	return deleted, err
}

func (r Groups) inUse(g *SecurityGroup) bool {
	for _, n := range r.data.nics {
		if n.HasGroup(g.ID) {
			return true
		}
	}
	for _, other := range r.data.groups {
		if other == g || other.VPCID != g.VPCID {
			continue
		}
		for i := range other.Rules {
			if p := other.Rules[i].Group; p != nil && p.GroupID == g.ID {
				return true
			}
		}
	}
	return r.referredElsewhere(g)
}

// mutate is World.mutate in the scope of the region.
func (r *site) mutate(action string, f func(now time.Time) ([]string, error)) error {
	return r.w.mutateFor(r.cause, r.at, action, f)
}
