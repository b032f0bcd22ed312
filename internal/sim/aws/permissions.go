package aws

// Permission is the rule as a Permission with one peer.
func (r *SecurityGroupRule) Permission() Permission {
	p := Permission{Protocol: r.Protocol}
	if r.Protocol != AllProtocols {
		from, to := r.FromPort, r.ToPort
		p.FromPort, p.ToPort = &from, &to
	}
	switch {
	case r.Group != nil:
		p.Groups = []GroupRef{{GroupID: r.Group.GroupID, UserID: r.Group.UserID, Description: r.Description}}
	case r.PrefixListID != "":
		p.PrefixLists = []PrefixListPeer{{r.PrefixListID, r.Description}}
	default:
		p.CIDRs = []CIDRPeer{{r.CIDR.String(), r.CIDR.Addr().Is6(), r.Description}}
	}
	return p
}

// PeerKind tells apart what ModifySecurityGroupRules cannot turn into one another.
func (r *SecurityGroupRule) PeerKind() string {
	switch {
	case r.Group != nil:
		return "group"
	case r.PrefixListID != "":
		return "prefix list"
	case r.CIDR.Addr().Is4():
		return "IPv4"
	}
	return "IPv6"
}

// Expand turns permissions into canonical rules of a group, one per peer, without ids. It checks
// everything that the text alone can get wrong, as an authorize call would; group references must
// be by id.
func Expand(groupID, account string, egress bool, perms []Permission) ([]SecurityGroupRule, error) {
	base := SecurityGroupRule{GroupID: groupID, Account: account, Egress: egress}
	return ExpandAll(base, perms, func(ref GroupRef) (GroupPeer, error) {
		peer := GroupPeer{GroupID: ref.GroupID, UserID: ref.UserID, VPCID: ref.VPCID, PeeringID: ref.PeeringID}
		if peer.UserID == "" {
			peer.UserID = account
		}
		return peer, CheckID("sg", peer.GroupID)
	})
}

// ExpandAll turns permissions into rules, one per peer, that have the rest from base. group reads a
// group reference.
func ExpandAll(base SecurityGroupRule, perms []Permission, group func(GroupRef) (GroupPeer, error)) ([]SecurityGroupRule, error) {
	if len(perms) == 0 {
		return nil, Refuse("MissingParameter", "The request must contain the parameter ipPermissions")
	}
	var out []SecurityGroupRule
	for i := range perms {
		rules, err := expandOne(base, &perms[i], group)
		if err != nil {
			return nil, err
		}
		out = append(out, rules...)
	}
	twice := map[RuleKey]bool{}
	for i := range out {
		if twice[out[i].Key()] {
			return nil, InvalidValue("The same permission must not appear multiple times")
		}
		twice[out[i].Key()] = true
	}
	return out, nil
}

func expandOne(base SecurityGroupRule, p *Permission, group func(GroupRef) (GroupPeer, error)) ([]SecurityGroupRule, error) {
	if p.Protocol == "" {
		return nil, InvalidValue("Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.")
	}
	var ok bool
	if base.Protocol, ok = canonicalProtocol(p.Protocol); !ok {
		return nil, InvalidValue("Invalid value '%s' for IP protocol. Unknown protocol.", p.Protocol)
	}
	var err error
	if base.FromPort, base.ToPort, err = ports(base.Protocol, p.FromPort, p.ToPort); err != nil {
		return nil, err
	}
	if len(p.CIDRs)+len(p.Groups)+len(p.PrefixLists) == 0 {
		return nil, Refuse("InvalidPermission.Malformed", "The permission for protocol %s names no CIDR block, security group or prefix list", p.Protocol)
	}
	var out []SecurityGroupRule
	add := func(description string, set func(*SecurityGroupRule)) {
		rule := base
		rule.Description = description
		set(&rule)
		out = append(out, rule)
	}
	for _, c := range p.CIDRs {
		prefix, err := CanonicalCIDR(c.CIDR, c.IPv6)
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
		if err := CheckRuleDescription(out[i].Description); err != nil {
			return nil, err
		}
	}
	return out, nil
}
