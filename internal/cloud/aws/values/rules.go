package values

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

// maxDescription is the longest description of a rule or group, in characters.
const maxDescription = 255

// rulesOf splits a permission, as the cloud groups rules, into one rule per peer. owner is the
// account of the rules' group: a peer group of the same account needs no owner.
func Rules(d cloud.Direction, perm types.IpPermission, owner string) ([]cloud.Rule, error) {
	match, err := matchOf(perm)
	if err != nil {
		return nil, err
	}
	var rules []cloud.Rule
	add := func(peer cloud.Peer, description *string) {
		rules = append(rules, cloud.Rule{Direction: d, Match: match, Peer: peer, Description: awssdk.ToString(description)})
	}
	for _, r := range perm.IpRanges {
		prefix, err := ParsePrefix(awssdk.ToString(r.CidrIp))
		if err != nil {
			return nil, err
		}
		add(cloud.Peer{CIDR: prefix}, r.Description)
	}
	for _, r := range perm.Ipv6Ranges {
		prefix, err := ParsePrefix(awssdk.ToString(r.CidrIpv6))
		if err != nil {
			return nil, err
		}
		add(cloud.Peer{CIDR: prefix}, r.Description)
	}
	for _, g := range perm.UserIdGroupPairs {
		peer := cloud.Peer{GroupID: awssdk.ToString(g.GroupId)}
		if peer.GroupID == "" {
			return nil, fmt.Errorf("a rule refers to a group without an id")
		}
		if user := awssdk.ToString(g.UserId); user != owner {
			peer.GroupOwner = user
		}
		add(peer, g.Description)
	}
	for _, l := range perm.PrefixListIds {
		add(cloud.Peer{PrefixListID: awssdk.ToString(l.PrefixListId)}, l.Description)
	}
	return rules, nil
}

// ruleOf reads a rule as DescribeSecurityGroupRules lists it.
func Rule(l types.SecurityGroupRule) (cloud.Rule, error) {
	perm := types.IpPermission{IpProtocol: l.IpProtocol, FromPort: l.FromPort, ToPort: l.ToPort}
	switch {
	case l.CidrIpv4 != nil:
		perm.IpRanges = []types.IpRange{{CidrIp: l.CidrIpv4, Description: l.Description}}
	case l.CidrIpv6 != nil:
		perm.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: l.CidrIpv6, Description: l.Description}}
	case l.PrefixListId != nil:
		perm.PrefixListIds = []types.PrefixListId{{PrefixListId: l.PrefixListId, Description: l.Description}}
	case l.ReferencedGroupInfo != nil:
		perm.UserIdGroupPairs = []types.UserIdGroupPair{{
			GroupId: l.ReferencedGroupInfo.GroupId, UserId: l.ReferencedGroupInfo.UserId, Description: l.Description,
		}}
	}
	d := cloud.Ingress
	if awssdk.ToBool(l.IsEgress) {
		d = cloud.Egress
	}
	rules, err := Rules(d, perm, awssdk.ToString(l.GroupOwnerId))
	if err != nil {
		return cloud.Rule{}, err
	}
	if len(rules) != 1 {
		return cloud.Rule{}, fmt.Errorf("the rule %s has no peer", awssdk.ToString(l.SecurityGroupRuleId))
	}
	rules[0].ID = awssdk.ToString(l.SecurityGroupRuleId)
	return rules[0], nil
}

// matchOf is the canonical match of a permission. Ports that the cloud leaves out mean all of them.
func matchOf(perm types.IpPermission) (cloud.Match, error) {
	protocol, err := protocolNumber(awssdk.ToString(perm.IpProtocol))
	if err != nil {
		return cloud.Match{}, err
	}
	from, to := -1, -1
	if perm.FromPort != nil {
		from = int(*perm.FromPort)
	}
	if perm.ToPort != nil {
		to = int(*perm.ToPort)
	}
	if (protocol == cloud.TCP || protocol == cloud.UDP) && from < 0 {
		from, to = 0, 65535
	}
	return cloud.NewMatch(protocol, from, to), nil
}

func protocolNumber(name string) (int, error) {
	switch strings.ToLower(name) {
	case "-1", "all":
		return cloud.AnyProtocol, nil
	case "tcp":
		return cloud.TCP, nil
	case "udp":
		return cloud.UDP, nil
	case "icmp":
		return cloud.ICMP, nil
	case "icmpv6":
		return cloud.ICMPv6, nil
	}
	n, err := strconv.ParseUint(name, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%q is not a protocol", name)
	}
	return int(n), nil
}

func protocolName(number int) string {
	switch number {
	case cloud.TCP:
		return "tcp"
	case cloud.UDP:
		return "udp"
	case cloud.ICMP:
		return "icmp"
	case cloud.ICMPv6:
		return "icmpv6"
	}
	return strconv.Itoa(number)
}

// Permissions groups the rules of one direction into the permissions of one call: one per match,
// each with all its peers, without repetitions and in a fixed order.
func Permissions(d cloud.Direction, rules []cloud.Rule) ([]types.IpPermission, error) {
	var mine []cloud.Rule
	for _, r := range rules {
		if r.Direction == d {
			mine = append(mine, r)
		}
	}
	slices.SortStableFunc(mine, cloud.Rule.Compare)
	mine = slices.CompactFunc(mine, cloud.Rule.Same)
	var perms []types.IpPermission
	for i, r := range mine {
		if i == 0 || mine[i-1].Match != r.Match {
			perm, err := Permission(r.Match)
			if err != nil {
				return nil, err
			}
			perms = append(perms, perm)
		}
		if err := AddPeer(&perms[len(perms)-1], r); err != nil {
			return nil, err
		}
	}
	return perms, nil
}

// Permission is a permission with a match and no peer yet.
func Permission(m cloud.Match) (types.IpPermission, error) {
	if m != cloud.NewMatch(m.Protocol, m.From, m.To) || m.Protocol < -1 || m.Protocol > math.MaxUint8 {
		return types.IpPermission{}, fmt.Errorf("match %+v is not canonical", m)
	}
	perm := types.IpPermission{IpProtocol: awssdk.String(protocolName(m.Protocol))}
	switch m.Protocol {
	case cloud.TCP, cloud.UDP:
		if m.From < 0 || m.To > math.MaxUint16 || m.From > m.To {
			return perm, fmt.Errorf("%s: ports must be a range within 0-65535", m)
		}
	case cloud.ICMP, cloud.ICMPv6:
		if m.From > math.MaxUint8 || m.To > math.MaxUint8 {
			return perm, fmt.Errorf("%s: ICMP type and code must be within 0-255", m)
		}
	default:
		// EC2 takes these protocols with and without ports; some services that are like it only
		// with.
		perm.FromPort, perm.ToPort = awssdk.Int32(-1), awssdk.Int32(-1)
		return perm, nil
	}
	perm.FromPort, perm.ToPort = awssdk.Int32(int32(m.From)), awssdk.Int32(int32(m.To))
	return perm, nil
}

// AddPeer adds the peer of a rule to a permission.
func AddPeer(perm *types.IpPermission, r cloud.Rule) error {
	var description *string
	if text := AllowedText(r.Description); text != "" {
		description = awssdk.String(text)
	}
	switch p := r.Peer; {
	case p.CIDR.IsValid() && p.CIDR.Addr().Is4():
		perm.IpRanges = append(perm.IpRanges, types.IpRange{CidrIp: awssdk.String(p.CIDR.Masked().String()), Description: description})
	case p.CIDR.IsValid() && !p.CIDR.Addr().Is4In6():
		perm.Ipv6Ranges = append(perm.Ipv6Ranges,
			types.Ipv6Range{CidrIpv6: awssdk.String(p.CIDR.Masked().String()), Description: description})
	case p.GroupID != "":
		pair := types.UserIdGroupPair{GroupId: awssdk.String(p.GroupID), Description: description}
		if p.GroupOwner != "" {
			pair.UserId = awssdk.String(p.GroupOwner)
		}
		perm.UserIdGroupPairs = append(perm.UserIdGroupPairs, pair)
	case p.Except != "":
		return fmt.Errorf("the rule %q leaves addresses out of a prefix list, which security groups cannot say", r)
	case p.PrefixListID != "":
		perm.PrefixListIds = append(perm.PrefixListIds,
			types.PrefixListId{PrefixListId: awssdk.String(p.PrefixListID), Description: description})
	case p.GroupName != "":
		return fmt.Errorf("the group %q that the rule %q refers to has no id yet", p.GroupName, r)
	default:
		return fmt.Errorf("the rule %q has no peer", r)
	}
	return nil
}

// AllowedText makes a description that the cloud takes: other characters become "_", what is too
// long is cut.
func AllowedText(s string) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" ._-:/()#,@[]+=;{}!$*", r):
			return r
		}
		return '_'
	}, s)
	if len(mapped) > maxDescription {
		mapped = mapped[:maxDescription-3] + "..."
	}
	return strings.TrimSpace(mapped)
}

// Missing returns the wanted rules that the group does not have.
func Missing(have *cloud.Group, want []cloud.Rule) []cloud.Rule {
	return slices.DeleteFunc(slices.Clone(want), func(r cloud.Rule) bool { return HasRule(have, r) })
}

// Present returns the rules of those given that the group has.
func Present(have *cloud.Group, rules []cloud.Rule) []cloud.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r cloud.Rule) bool { return !HasRule(have, r) })
}

// HasRule reports whether a group has a rule, whatever its description.
func HasRule(g *cloud.Group, r cloud.Rule) bool {
	return slices.ContainsFunc(g.Rules, func(o cloud.Rule) bool {
		o, r := o.Key(), r.Key()
		// The owner of a peer group may be given or left out; the id alone is unique.
		o.Peer.GroupOwner, r.Peer.GroupOwner = "", ""
		return o.Same(r)
	})
}
