package group

import (
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// group finds a visible group of the region by id, or by name in the default VPC when the id is
// empty.
func (r Groups) group(id, name string, now time.Time) (*aws.SecurityGroup, error) {
	if id == "" {
		if name == "" {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter groupName or groupId")
		}
		vpc := r.s.DefaultVPC()
		if vpc == nil {
			return nil, aws.Refuse("VPCIdNotSpecified", "No default VPC for this user")
		}
		if g := r.groupNamed(vpc.ID, name, now); g != nil {
			return g, nil
		}
		return nil, aws.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist in default VPC '%s'", name, vpc.ID)
	}
	if err := aws.CheckID("sg", id); err != nil {
		return nil, err
	}
	g, ok := r.s.Data.Groups[id]
	if !ok || !store.Seen(g.Visible, now) {
		return nil, aws.NotFound(id)
	}
	return g, nil
}

func (r Groups) groupNamed(vpcID, name string, now time.Time) *aws.SecurityGroup {
	for _, g := range r.s.Data.Groups {
		if g.VPCID == vpcID && g.Name == name && store.Seen(g.Visible, now) {
			return g
		}
	}
	return nil
}

// expand is Expand for a group of the region, where references may also be by name.
func (r Groups) expand(g *aws.SecurityGroup, egress bool, perms []aws.Permission, now time.Time) ([]aws.SecurityGroupRule, error) {
	base := aws.SecurityGroupRule{GroupID: g.ID, Account: g.Account, Egress: egress}
	return aws.ExpandAll(base, perms, func(ref aws.GroupRef) (aws.GroupPeer, error) { return r.groupPeer(g, ref, now) })
}

// groupPeer reads a group reference; a group named instead of given by id is looked up in the VPC
// of g.
func (r Groups) groupPeer(g *aws.SecurityGroup, ref aws.GroupRef, now time.Time) (aws.GroupPeer, error) {
	peer := aws.GroupPeer{GroupID: ref.GroupID, UserID: ref.UserID, VPCID: ref.VPCID, PeeringID: ref.PeeringID}
	if peer.UserID == "" {
		peer.UserID = r.s.Account
	}
	if peer.GroupID == "" {
		if ref.GroupName == "" {
			return peer, aws.Refuse("MissingParameter", "Source group ID missing.")
		}
		named := r.groupNamed(g.VPCID, ref.GroupName, now)
		if named == nil {
			return peer, aws.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", ref.GroupName)
		}
		peer.GroupID = named.ID
	}
	return peer, aws.CheckID("sg", peer.GroupID)
}

// checkPeer makes sure that the peer of a new rule exists and may be referenced, and completes the
// group reference.
func (r Groups) checkPeer(g *aws.SecurityGroup, rule *aws.SecurityGroupRule, now time.Time) error {
	if rule.PrefixListID != "" {
		p, ok := r.s.Data.PrefixLists[rule.PrefixListID]
		if !ok || !store.Seen(p.Visible, now) {
			return aws.NotFound(rule.PrefixListID)
		}
		return nil
	}
	if rule.Group == nil {
		return nil
	}
	owner := r.s.OfAccount(rule.Group.UserID)
	if owner == nil {
		return aws.NotFound(rule.Group.GroupID)
	}
	ref, ok := owner.Groups[rule.Group.GroupID]
	if !ok || !store.Seen(ref.Visible, now) {
		return aws.NotFound(rule.Group.GroupID)
	}
	rule.Group.VPCID, rule.Group.PeeringID = "", ""
	if ref.VPCID == g.VPCID {
		return nil
	}
	p := r.s.ActivePeering(g.VPCID, ref.VPCID)
	if p == nil || p.Requester.Region != p.Accepter.Region {
		return aws.Refuse("InvalidGroup.NotFound", "You have specified two resources that belong to different networks.")
	}
	rule.Group.VPCID, rule.Group.PeeringID = ref.VPCID, p.ID
	return nil
}

// ruleCount counts rules as the quota does: a group reference costs one in each family, a prefix
// list its size.
type ruleCount struct{ v4, v6 int }

func countRules(d *aws.Resources, rules []aws.SecurityGroupRule, egress bool) ruleCount {
	var n ruleCount
	for i := range rules {
		x := &rules[i]
		if x.Egress != egress {
			continue
		}
		switch {
		case x.Group != nil:
			n.v4++
			n.v6++
		case x.PrefixListID != "":
			p, ok := d.PrefixLists[x.PrefixListID]
			switch {
			case !ok:
			case p.Family == "IPv6":
				n.v6 += p.MaxEntries
			default:
				n.v4 += p.MaxEntries
			}
		case x.CIDR.Addr().Is4():
			n.v4++
		default:
			n.v6++
		}
	}
	return n
}

// checkRuleQuota refuses a change of the rules of one direction that grows a family beyond the
// quota.
func (r Groups) checkRuleQuota(before, after []aws.SecurityGroupRule, egress bool) error {
	limit := r.s.Quotas().RulesPerGroup
	b, a := countRules(r.s.Data, before, egress), countRules(r.s.Data, after, egress)
	if a.v4 > limit && a.v4 > b.v4 || a.v6 > limit && a.v6 > b.v6 {
		return aws.Refuse("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
	}
	return nil
}
