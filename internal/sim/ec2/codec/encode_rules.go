package codec

import (
	"net/netip"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// GroupBody is a group as DescribeSecurityGroups shows it.
func GroupBody(region string, g aws.SecurityGroup) []wire.Element {
	return []wire.Element{
		wire.Text("ownerId", g.Account),
		wire.Text("groupId", g.ID),
		wire.Text("groupName", g.Name),
		wire.Text("groupDescription", g.Description),
		wire.Text("vpcId", g.VPCID),
		wire.Text("securityGroupArn", aws.ARN(region, g.Account, g.ID)),
		permissionSet("ipPermissions", g.Rules, false),
		permissionSet("ipPermissionsEgress", g.Rules, true),
		SomeTags(g.Tags),
	}
}

// portSpec is what DescribeSecurityGroups collects peers by.
type portSpec struct {
	protocol string
	from, to int32
}

// permissionSet writes the rules of one direction as the service does for whole groups: one
// permission per protocol and port range, with all its peers.
func permissionSet(name string, rules []aws.SecurityGroupRule, egress bool) wire.Element {
	var order []portSpec
	peers := map[portSpec][]aws.SecurityGroupRule{}
	for _, r := range rules {
		if r.Egress != egress {
			continue
		}
		key := portSpec{r.Protocol, r.FromPort, r.ToPort}
		if peers[key] == nil {
			order = append(order, key)
		}
		peers[key] = append(peers[key], r)
	}
	return wire.List(name, order, func(s portSpec) []wire.Element {
		body := []wire.Element{wire.Text("ipProtocol", s.protocol)}
		if s.protocol != "-1" {
			body = append(body, wire.Int("fromPort", int(s.from)), wire.Int("toPort", int(s.to)))
		}
		return append(body, peerSets(peers[s])...)
	})
}

func peerSets(rules []aws.SecurityGroupRule) []wire.Element {
	var groups, v4, v6, lists []aws.SecurityGroupRule
	for _, r := range rules {
		switch {
		case r.Group != nil:
			groups = append(groups, r)
		case r.PrefixListID != "":
			lists = append(lists, r)
		case r.CIDR.Addr().Is4():
			v4 = append(v4, r)
		default:
			v6 = append(v6, r)
		}
	}
	return []wire.Element{
		wire.List("groups", groups, func(r aws.SecurityGroupRule) []wire.Element {
			return append(groupPeer(*r.Group), wire.Text("description", r.Description))
		}),
		wire.List("ipRanges", v4, func(r aws.SecurityGroupRule) []wire.Element {
			return []wire.Element{CIDR("cidrIp", r.CIDR), wire.Text("description", r.Description)}
		}),
		wire.List("ipv6Ranges", v6, func(r aws.SecurityGroupRule) []wire.Element {
			return []wire.Element{CIDR("cidrIpv6", r.CIDR), wire.Text("description", r.Description)}
		}),
		wire.List("prefixListIds", lists, func(r aws.SecurityGroupRule) []wire.Element {
			return []wire.Element{wire.Text("prefixListId", r.PrefixListID), wire.Text("description", r.Description)}
		}),
	}
}

func groupPeer(g aws.GroupPeer) []wire.Element {
	return []wire.Element{
		wire.Text("userId", g.UserID),
		wire.Text("groupId", g.GroupID),
		wire.Text("vpcId", g.VPCID),
		wire.Text("vpcPeeringConnectionId", g.PeeringID),
		wire.Text("peeringStatus", g.PeeringStatus),
	}
}

// RuleBody is a rule on its own. Unlike in permissionSet, ports are always written: -1 when the
// protocol has none.
func RuleBody(region string, r aws.SecurityGroupRule) []wire.Element {
	body := []wire.Element{
		wire.Text("securityGroupRuleId", r.ID),
		wire.Text("groupId", r.GroupID),
		wire.Text("groupOwnerId", r.Account),
		wire.Bool("isEgress", r.Egress),
		wire.Text("ipProtocol", r.Protocol),
		wire.Int("fromPort", int(r.FromPort)),
		wire.Int("toPort", int(r.ToPort)),
		wire.Text("description", r.Description),
		wire.Text("securityGroupRuleArn", aws.ARN(region, r.Account, r.ID)),
		tagSet(r.Tags),
	}
	if r.Group != nil {
		return append(body, wire.Node("referencedGroupInfo", groupPeer(*r.Group)...))
	}
	return append(body, plainPeer(r))
}

// plainPeer is the peer of a rule that is not a group.
func plainPeer(r aws.SecurityGroupRule) wire.Element {
	switch {
	case r.PrefixListID != "":
		return wire.Text("prefixListId", r.PrefixListID)
	case r.CIDR.Addr().Is4():
		return CIDR("cidrIpv4", r.CIDR)
	}
	return CIDR("cidrIpv6", r.CIDR)
}

// RevokedBody is a rule in the answer of a revoke call, which has its own names for some parts.
func RevokedBody(r aws.SecurityGroupRule) []wire.Element {
	body := []wire.Element{
		wire.Text("securityGroupRuleId", r.ID),
		wire.Text("groupId", r.GroupID),
		wire.Bool("isEgress", r.Egress),
		wire.Text("ipProtocol", r.Protocol),
		wire.Int("fromPort", int(r.FromPort)),
		wire.Int("toPort", int(r.ToPort)),
		wire.Text("description", r.Description),
	}
	if r.Group != nil {
		return append(body, wire.Text("referencedGroupId", r.Group.GroupID))
	}
	return append(body, plainPeer(r))
}

// PermissionBody writes a permission of a request back, for the set of those that matched no rule.
func PermissionBody(p aws.Permission) []wire.Element {
	body := []wire.Element{wire.Text("ipProtocol", p.Protocol)}
	if p.FromPort != nil {
		body = append(body, wire.Int("fromPort", int(*p.FromPort)))
	}
	if p.ToPort != nil {
		body = append(body, wire.Int("toPort", int(*p.ToPort)))
	}
	var v4, v6 []aws.CIDRPeer
	for _, c := range p.CIDRs {
		if c.IPv6 {
			v6 = append(v6, c)
		} else {
			v4 = append(v4, c)
		}
	}
	return append(body,
		wire.List("groups", p.Groups, func(g aws.GroupRef) []wire.Element {
			return []wire.Element{wire.Text("userId", g.UserID), wire.Text("groupId", g.GroupID), wire.Text("groupName", g.GroupName)}
		}),
		wire.List("ipRanges", v4, func(c aws.CIDRPeer) []wire.Element { return []wire.Element{wire.Text("cidrIp", c.CIDR)} }),
		wire.List("ipv6Ranges", v6, func(c aws.CIDRPeer) []wire.Element {
			return []wire.Element{wire.Text("cidrIpv6", c.CIDR)}
		}),
		wire.List("prefixListIds", p.PrefixLists, func(l aws.PrefixListPeer) []wire.Element {
			return []wire.Element{wire.Text("prefixListId", l.PrefixListID)}
		}))
}

// EntryBody is an entry of a prefix list.
func EntryBody(e aws.PrefixListEntry) []wire.Element {
	return []wire.Element{CIDR("cidr", e.CIDR), wire.Text("description", e.Description)}
}

// Blocks returns the IPv4 or the IPv6 blocks of a list, as text.
func Blocks(list []aws.CIDRBlock, v4 bool) []string {
	var out []string
	for _, b := range list {
		if b.Prefix.Addr().Is4() == v4 {
			out = append(out, b.Prefix.String())
		}
	}
	return out
}

// addrs returns the valid ones of these addresses, as text.
func addrs(list ...netip.Addr) []string {
	var out []string
	for _, a := range list {
		if a.IsValid() {
			out = append(out, a.String())
		}
	}
	return out
}
