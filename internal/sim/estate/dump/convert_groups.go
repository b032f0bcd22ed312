package dump

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
)

// weights are the sizes that lists of the cloud count with in the rule quota. It is never written
// to.
var weights = map[string]int{
	"cloudfront.origin-facing": 55, "s3": 1, "dynamodb": 1, "vpc-lattice": 10, "groundstation": 5,
}

func (b *builder) buildPrefixLists() error {
	b.missingEntries()
	for i := range b.raw.prefixLists {
		raw := &b.raw.prefixLists[i]
		if raw.PrefixListId == "" {
			return b.fault("PrefixLists", fmt.Sprintf("element %d", i), "PrefixListId", "expected an id")
		}
		p := &aws.PrefixList{
			ID: b.id("pl", raw.PrefixListId), Name: raw.PrefixListName, OwnerID: raw.OwnerId,
			Family: cmp.Or(raw.AddressFamily, "IPv4"), MaxEntries: raw.MaxEntries, State: "create-complete", Tags: tagsOf(raw.Tags),
		}
		if strings.HasPrefix(p.Name, "com.amazonaws.") || p.OwnerID == "" {
			p.OwnerID = aws.AWSOwned
		}
		entries := []aws.PrefixListEntry{}
		for _, e := range raw.Entries {
			raw.Cidrs = append(raw.Cidrs, e.Cidr)
		}
		for _, text := range raw.Cidrs {
			block, err := b.block("PrefixLists", raw.PrefixListId, "Cidrs", text)
			if err != nil {
				return err
			}
			entries = append(entries, aws.PrefixListEntry{CIDR: block})
		}
		if len(raw.Cidrs) == 0 {
			b.warn("PrefixLists", raw.PrefixListId, "the dump does not hold its entries; it matches nothing")
		}
		if p.MaxEntries == 0 {
			p.MaxEntries = max(1, len(entries))
			if p.OwnerID == aws.AWSOwned {
				p.MaxEntries = weight(p.Name)
			}
		}
		p.Versions = [][]aws.PrefixListEntry{entries}
		b.lists[p.ID] = p
	}
	return nil
}

func weight(name string) int {
	for suffix, n := range weights {
		if strings.HasSuffix(name, "."+suffix) {
			return n
		}
	}
	return 1
}

func (b *builder) buildGroups() error {
	for i := range b.raw.groups {
		raw := &b.raw.groups[i]
		if raw.GroupId == "" {
			return b.fault("SecurityGroups", fmt.Sprintf("element %d", i), "GroupId", "expected an id")
		}
		id := b.id("sg", raw.GroupId)
		if b.groups[id] != nil {
			b.warn("SecurityGroups", raw.GroupId, "appears again; the first one is kept")
			continue
		}
		b.own("SecurityGroups", raw.OwnerId)
		g := &aws.SecurityGroup{
			ID: id, Account: b.account, Name: raw.GroupName, Description: raw.Description, Tags: tagsOf(raw.Tags),
			VPCID: b.vpc("SecurityGroups", raw.GroupId, raw.VpcId, netip.MustParsePrefix("10.0.0.0/16")).ID,
		}
		if g.Description == defaults.GroupDescription && g.Name != defaults.GroupName {
			b.warn("SecurityGroups", raw.GroupId, "is called %q but described as the default group; it is named default", g.Name)
			g.Name = defaults.GroupName
		}
		if g.Name == "" {
			b.warn("SecurityGroups", raw.GroupId, "has no name; it is named after its id")
			g.Name = "group " + id
		}
		for n := 2; b.named(g.VPCID, g.Name) != nil; n++ {
			name := fmt.Sprintf("%s (%d)", raw.GroupName, n)
			b.warn("SecurityGroups", raw.GroupId, "VPC %s has a group named %q already, %s; this one is named %q", raw.VpcId, g.Name, b.named(g.VPCID, g.Name).ID, name)
			g.Name = name
		}
		b.groups[id] = g
	}
	return nil
}

func (b *builder) named(vpcID, name string) *aws.SecurityGroup {
	for _, g := range b.groups {
		if g.VPCID == vpcID && g.Name == name {
			return g
		}
	}
	return nil
}

// group returns the group of an interface; one that is not there, or is of another VPC, is made up
// without rules.
func (b *builder) group(member, object string, raw rawGroupName, vpcID string) aws.GroupName {
	id := b.id("sg", raw.GroupId)
	g := b.groups[id]
	if g != nil && g.VPCID == vpcID {
		if raw.GroupName != "" && raw.GroupName != g.Name && !strings.HasPrefix(raw.GroupName, "GroupName:") {
			b.warn(member, object, "calls group %s %q, its name is %q", raw.GroupId, raw.GroupName, g.Name)
		}
		return aws.GroupName{ID: id, Name: g.Name}
	}
	why := "is not in the dump"
	if g != nil {
		why, id = "is of VPC "+g.VPCID, defaults.ID("sg", vpcID, id)
	}
	if g = b.groups[id]; g == nil {
		name := cmp.Or(raw.GroupName, "missing "+raw.GroupId)
		if b.named(vpcID, name) != nil {
			name = "missing " + id
		}
		g = &aws.SecurityGroup{ID: id, Account: b.account, VPCID: vpcID, Name: name, Description: "not in the dump"}
		b.groups[id] = g
		b.warn(member, object, "holds group %s (%s), which %s; an empty group was made up", raw.GroupId, raw.GroupName, why)
		b.notTold("SecurityGroups", raw.GroupId, "this group with its rules, because "+object+" holds it", "a group without rules")
	}
	return aws.GroupName{ID: id, Name: g.Name}
}

// defaultGroups gives every VPC that has none its default group.
func (b *builder) defaultGroups() {
	for _, id := range slices.Sorted(maps.Keys(b.vpcs)) {
		if b.named(id, defaults.GroupName) != nil {
			continue
		}
		b.warn("SecurityGroups", id, "has no default group in the dump; one was made up")
		g := defaults.GroupOf(b.vpcs[id])
		b.groups[g.ID] = &g
	}
}

// attachRules fills the groups with their rules; all groups are known by now.
func (b *builder) attachRules() error {
	done := map[string]bool{}
	for i := range b.raw.groups {
		raw := &b.raw.groups[i]
		g := b.groups[b.id("sg", raw.GroupId)]
		if done[g.ID] {
			continue
		}
		done[g.ID] = true
		seen := map[string]bool{}
		for _, half := range []struct {
			field  string
			perms  []rawPermission
			egress bool
		}{{"IpPermissions", raw.IpPermissions, false}, {"IpPermissionsEgress", raw.IpPermissionsEgress, true}} {
			for k := range half.perms {
				rules, err := b.rules(g, raw, &half.perms[k], half.egress)
				if err != nil {
					return fmt.Errorf("%s: %s: %s[%d]: %w", b.raw.file("SecurityGroups"), raw.GroupId, half.field, k, err)
				}
				for _, x := range rules {
					if seen[x.String()] {
						b.warn("SecurityGroups", raw.GroupId, "rule %q appears twice; it is kept once", &x)
						continue
					}
					seen[x.String()] = true
					g.Rules = append(g.Rules, x)
				}
			}
		}
		defaults.NumberRules(g)
	}
	return nil
}

// rules turns one permission of a dump into rules.
func (b *builder) rules(g *aws.SecurityGroup, raw *rawGroup, p *rawPermission, egress bool) ([]aws.SecurityGroupRule, error) {
	perm := aws.Permission{Protocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort}
	for _, c := range p.IpRanges {
		block, err := b.block("SecurityGroups", raw.GroupId, "CidrIp", c.CidrIp)
		if err != nil {
			return nil, err
		}
		perm.CIDRs = append(perm.CIDRs, aws.CIDRPeer{CIDR: block.String(), Description: c.Description})
	}
	for _, c := range p.Ipv6Ranges {
		block, err := b.block("SecurityGroups", raw.GroupId, "CidrIpv6", c.CidrIpv6)
		if err != nil {
			return nil, err
		}
		perm.CIDRs = append(perm.CIDRs, aws.CIDRPeer{CIDR: block.String(), IPv6: true, Description: c.Description})
	}
	for _, x := range p.PrefixListIds {
		id := b.id("pl", x.PrefixListId)
		if b.lists[id] == nil {
			b.warn("SecurityGroups", raw.GroupId, "refers to prefix list %s, which is not in the dump; an empty list of the cloud was made up", x.PrefixListId)
			b.lists[id] = &aws.PrefixList{ID: id, Name: "com.amazonaws." + b.raw.name + ".missing." + id, OwnerID: aws.AWSOwned,
				Family: "IPv4", MaxEntries: 1, State: "create-complete", Versions: [][]aws.PrefixListEntry{{}}}
		}
		perm.PrefixLists = append(perm.PrefixLists, aws.PrefixListPeer{PrefixListID: id, Description: x.Description})
	}
	for _, x := range p.UserIdGroupPairs {
		ref := aws.GroupRef{GroupID: b.id("sg", x.GroupId), UserID: b.account, Description: x.Description}
		if defaults.IsAccount(x.UserId) {
			ref.UserID = x.UserId
		}
		if b.groups[ref.GroupID] == nil && ref.UserID == b.account {
			b.warn("SecurityGroups", raw.GroupId, "refers to group %s, which is not in the dump; the rule is kept as a stale one and matches nothing", x.GroupId)
		}
		if b.groups[ref.GroupID] == nil {
			ref.VPCID, ref.PeeringID = x.VpcId, x.VpcPeeringConnectionId
		}
		perm.Groups = append(perm.Groups, ref)
	}
	if len(perm.CIDRs)+len(perm.Groups)+len(perm.PrefixLists) == 0 {
		b.warn("SecurityGroups", raw.GroupId, "a permission for protocol %s has no peer; it allows nothing and is left out", p.IpProtocol)
		return nil, nil
	}
	var out []aws.SecurityGroupRule
	for _, one := range singlePeers(perm) {
		rules, err := aws.Expand(g.ID, b.account, egress, []aws.Permission{one})
		var refused *aws.Error
		if errors.As(err, &refused) {
			return nil, errors.New(refused.Message)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, rules...)
	}
	return out, nil
}

// singlePeers splits a permission by its peers: equal peers are then no error of the whole.
func singlePeers(p aws.Permission) []aws.Permission {
	base := aws.Permission{Protocol: p.Protocol, FromPort: p.FromPort, ToPort: p.ToPort}
	var out []aws.Permission
	for i := range p.CIDRs {
		one := base
		one.CIDRs = p.CIDRs[i : i+1]
		out = append(out, one)
	}
	for i := range p.Groups {
		one := base
		one.Groups = p.Groups[i : i+1]
		out = append(out, one)
	}
	for i := range p.PrefixLists {
		one := base
		one.PrefixLists = p.PrefixLists[i : i+1]
		out = append(out, one)
	}
	return out
}
