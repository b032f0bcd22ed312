package aws

import "time"

// group finds a visible group of the region by id, or by name in the default VPC when the id is
// empty.
func (r Groups) group(id, name string, now time.Time) (*SecurityGroup, error) {
	if id == "" {
		if name == "" {
			return nil, refuse("MissingParameter", "The request must contain the parameter groupName or groupId")
		}
		vpc := Networks(r).defaultVPC()
		if vpc == nil {
			return nil, refuse("VPCIdNotSpecified", "No default VPC for this user")
		}
		if g := r.groupNamed(vpc.ID, name, now); g != nil {
			return g, nil
		}
		return nil, refuse("InvalidGroup.NotFound", "The security group '%s' does not exist in default VPC '%s'", name, vpc.ID)
	}
	if err := CheckID("sg", id); err != nil {
		return nil, err
	}
	g, ok := r.data.groups[id]
	if !ok || !seen(g.Visible, now) {
		return nil, NotFound(id)
	}
	return g, nil
}

func (r Groups) groupNamed(vpcID, name string, now time.Time) *SecurityGroup {
	for _, g := range r.data.groups {
		if g.VPCID == vpcID && g.Name == name && seen(g.Visible, now) {
			return g
		}
	}
	return nil
}

func (r Networks) defaultVPC() *VPC {
	for _, v := range r.data.vpcs {
		if v.IsDefault {
			return v
		}
	}
	return nil
}

// Expand turns permissions into canonical rules of a group, one per peer, without ids. It checks
// everything that the text alone can get wrong, as an authorize call would; group references must
// be by id.
func Expand(groupID, account string, egress bool, perms []Permission) ([]SecurityGroupRule, error) {
	base := SecurityGroupRule{GroupID: groupID, Account: account, Egress: egress}
	return expandAll(base, perms, func(ref GroupRef) (GroupPeer, error) {
		peer := GroupPeer{GroupID: ref.GroupID, UserID: ref.UserID, VPCID: ref.VPCID, PeeringID: ref.PeeringID}
		if peer.UserID == "" {
			peer.UserID = account
		}
		return peer, CheckID("sg", peer.GroupID)
	})
}

// expand is Expand for a group of the region, where references may also be by name.
func (r Groups) expand(g *SecurityGroup, egress bool, perms []Permission, now time.Time) ([]SecurityGroupRule, error) {
	base := SecurityGroupRule{GroupID: g.ID, Account: g.Account, Egress: egress}
	return expandAll(base, perms, func(ref GroupRef) (GroupPeer, error) { return r.groupPeer(g, ref, now) })
}

// resolver reads a group reference.
type resolver func(GroupRef) (GroupPeer, error)

func expandAll(base SecurityGroupRule, perms []Permission, group resolver) ([]SecurityGroupRule, error) {
	if len(perms) == 0 {
		return nil, refuse("MissingParameter", "The request must contain the parameter ipPermissions")
	}
	var out []SecurityGroupRule
	for i := range perms {
		rules, err := expandOne(base, &perms[i], group)
		if err != nil {
			return nil, err
		}
		out = append(out, rules...)
	}
	twice := map[ruleKey]bool{}
	for i := range out {
		if twice[out[i].key()] {
			return nil, invalidValue("The same permission must not appear multiple times")
		}
		twice[out[i].key()] = true
	}
	return out, nil
}

func expandOne(base SecurityGroupRule, p *Permission, group resolver) ([]SecurityGroupRule, error) {
	if p.Protocol == "" {
		return nil, invalidValue("Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.")
	}
	var ok bool
	if base.Protocol, ok = canonicalProtocol(p.Protocol); !ok {
		return nil, invalidValue("Invalid value '%s' for IP protocol. Unknown protocol.", p.Protocol)
	}
	var err error
	if base.FromPort, base.ToPort, err = ports(base.Protocol, p.FromPort, p.ToPort); err != nil {
		return nil, err
	}
	if len(p.CIDRs)+len(p.Groups)+len(p.PrefixLists) == 0 {
		return nil, refuse("InvalidPermission.Malformed", "The permission for protocol %s names no CIDR block, security group or prefix list", p.Protocol)
	}
	var out []SecurityGroupRule
	add := func(description string, set func(*SecurityGroupRule)) {
		rule := base
		rule.Description = description
		set(&rule)
		out = append(out, rule)
	}
	for _, c := range p.CIDRs {
		prefix, err := canonicalCIDR(c.CIDR, c.IPv6)
		if err != nil {
			return nil, err
		}
		add(c.Description, func(x *SecurityGroupRule) { x.CIDR = prefix })
	}
	for _, ref := range p.Groups {
		peer, err := group(ref)
		if err != nil {
			return nil, err
		}
		add(ref.Description, func(x *SecurityGroupRule) { x.Group = &peer })
	}
	for _, l := range p.PrefixLists {
		if err := CheckID("pl", l.PrefixListID); err != nil {
			return nil, err
		}
		add(l.Description, func(x *SecurityGroupRule) { x.PrefixListID = l.PrefixListID })
	}
	for i := range out {
		if err := checkRuleDescription(out[i].Description); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// groupPeer reads a group reference; a group named instead of given by id is looked up in the VPC
// of g.
func (r Groups) groupPeer(g *SecurityGroup, ref GroupRef, now time.Time) (GroupPeer, error) {
	peer := GroupPeer{GroupID: ref.GroupID, UserID: ref.UserID, VPCID: ref.VPCID, PeeringID: ref.PeeringID}
	if peer.UserID == "" {
		peer.UserID = r.at.account
	}
	if peer.GroupID == "" {
		if ref.GroupName == "" {
			return peer, refuse("MissingParameter", "Source group ID missing.")
		}
		named := r.groupNamed(g.VPCID, ref.GroupName, now)
		if named == nil {
			return peer, refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", ref.GroupName)
		}
		peer.GroupID = named.ID
	}
	return peer, CheckID("sg", peer.GroupID)
}

// checkPeer makes sure that the peer of a new rule exists and may be referenced, and completes the
// group reference.
func (r Groups) checkPeer(g *SecurityGroup, rule *SecurityGroupRule, now time.Time) error {
	if rule.PrefixListID != "" {
		p, ok := r.data.prefixLists[rule.PrefixListID]
		if !ok || !seen(p.Visible, now) {
			return NotFound(rule.PrefixListID)
		}
		return nil
	}
	if rule.Group == nil {
		return nil
	}
	owner, ok := r.w.regions[scope{rule.Group.UserID, r.at.region}]
	if !ok {
		return NotFound(rule.Group.GroupID)
	}
	ref, ok := owner.groups[rule.Group.GroupID]
	if !ok || !seen(ref.Visible, now) {
		return NotFound(rule.Group.GroupID)
	}
	rule.Group.VPCID, rule.Group.PeeringID = "", ""
	if ref.VPCID == g.VPCID {
		return nil
	}
	p := r.w.packets().activePeering(g.VPCID, ref.VPCID)
	if p == nil || p.Requester.Region != p.Accepter.Region {
		return refuse("InvalidGroup.NotFound", "You have specified two resources that belong to different networks.")
	}
	rule.Group.VPCID, rule.Group.PeeringID = ref.VPCID, p.ID
	return nil
}

// ruleCount counts rules as the quota does: a group reference costs one in each family, a prefix
// list its size.
type ruleCount struct{ v4, v6 int }

func (r *site) countRules(rules []SecurityGroupRule, egress bool) ruleCount {
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
			p, ok := r.data.prefixLists[x.PrefixListID]
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
func (r Groups) checkRuleQuota(before, after []SecurityGroupRule, egress bool) error {
	limit := r.w.quotas(r.at.account).RulesPerGroup
	b, a := r.countRules(before, egress), r.countRules(after, egress)
	if a.v4 > limit && a.v4 > b.v4 || a.v6 > limit && a.v6 > b.v6 {
		return refuse("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
	}
	return nil
}
