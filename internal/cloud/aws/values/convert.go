package values

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

// NameTag is the tag that holds the display name of a resource.
const NameTag = "Name"

// TagMap reads tags; nil for none.
func TagMap(tags []types.Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[awssdk.ToString(t.Key)] = awssdk.ToString(t.Value)
	}
	return m
}

// TagList is the inverse of tagMap, sorted by key.
func TagList(m map[string]string) []types.Tag {
	tags := make([]types.Tag, 0, len(m))
	for k, v := range m {
		tags = append(tags, types.Tag{Key: awssdk.String(k), Value: awssdk.String(v)})
	}
	slices.SortFunc(tags, func(a, b types.Tag) int { return cmp.Compare(*a.Key, *b.Key) })
	return tags
}

// ParsePrefix reads a CIDR, and masks it.
func ParsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR", s)
	}
	return p.Masked(), nil
}

// ComparePrefix orders CIDRs by address, then by length.
func ComparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// Network keeps the address ranges that are in force, IPv4 first, in the order of the cloud (the
// primary range comes first).
func Network(v types.Vpc) (cloud.Network, error) {
	n := cloud.Network{ID: awssdk.ToString(v.VpcId), OwnerID: awssdk.ToString(v.OwnerId), Tags: TagMap(v.Tags)}
	n.Name = n.Tags[NameTag]
	var ranges []string
	for _, a := range v.CidrBlockAssociationSet {
		if a.CidrBlockState == nil || a.CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			ranges = append(ranges, awssdk.ToString(a.CidrBlock))
		}
	}
	if len(v.CidrBlockAssociationSet) == 0 && v.CidrBlock != nil {
		ranges = append(ranges, *v.CidrBlock)
	}
	for _, a := range v.Ipv6CidrBlockAssociationSet {
		if a.Ipv6CidrBlockState == nil || a.Ipv6CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			ranges = append(ranges, awssdk.ToString(a.Ipv6CidrBlock))
		}
	}
	for _, s := range ranges {
		prefix, err := ParsePrefix(s)
		if err != nil {
			return n, fmt.Errorf("%s: %w", n.ID, err)
		}
		n.CIDRs = append(n.CIDRs, prefix)
	}
	return n, nil
}

// PeeringEnd reads one end of a peering.
func PeeringEnd(v *types.VpcPeeringConnectionVpcInfo) cloud.PeeringEnd {
	if v == nil {
		return cloud.PeeringEnd{}
	}
	out := cloud.PeeringEnd{NetworkID: awssdk.ToString(v.VpcId), OwnerID: awssdk.ToString(v.OwnerId), Region: awssdk.ToString(v.Region)}
	var blocks []string
	for _, b := range v.CidrBlockSet {
		blocks = append(blocks, awssdk.ToString(b.CidrBlock))
	}
	for _, b := range v.Ipv6CidrBlockSet {
		blocks = append(blocks, awssdk.ToString(b.Ipv6CidrBlock))
	}
	for _, b := range blocks {
		prefix, err := ParsePrefix(b)
		if err != nil {
			out.CIDRs = nil // as good as not told
			return out
		}
		out.CIDRs = append(out.CIDRs, prefix)
	}
	slices.SortFunc(out.CIDRs, ComparePrefix)
	return out
}

// VM reads an instance.
func VM(i types.Instance) cloud.VM {
	v := cloud.VM{
		ID: awssdk.ToString(i.InstanceId), NetworkID: awssdk.ToString(i.VpcId), State: cloud.VMUnknown, Tags: TagMap(i.Tags),
	}
	v.Name = v.Tags[NameTag]
	if i.State != nil {
		v.State = vmState(i.State.Name)
	}
	return v
}

func vmState(name types.InstanceStateName) cloud.VMState {
	switch name {
	case types.InstanceStateNamePending:
		return cloud.VMPending
	case types.InstanceStateNameRunning:
		return cloud.VMRunning
	case types.InstanceStateNameStopping:
		return cloud.VMStopping
	case types.InstanceStateNameStopped:
		return cloud.VMStopped
	case types.InstanceStateNameShuttingDown:
		return cloud.VMShuttingDown
	default:
		return cloud.VMUnknown
	}
}

// Interface reads a network interface with its addresses and groups.
func Interface(n types.NetworkInterface) (cloud.Interface, error) {
	i := cloud.Interface{
		ID: awssdk.ToString(n.NetworkInterfaceId), NetworkID: awssdk.ToString(n.VpcId), SubnetID: awssdk.ToString(n.SubnetId),
		OwnerID: awssdk.ToString(n.OwnerId), MAC: awssdk.ToString(n.MacAddress), Tags: TagMap(n.TagSet),
		Description: awssdk.ToString(n.Description), DNSName: awssdk.ToString(n.PrivateDnsName),
		Managed: awssdk.ToBool(n.RequesterManaged) || !ordinary(n.InterfaceType),
	}
	if n.Attachment != nil {
		i.VMID = awssdk.ToString(n.Attachment.InstanceId)
	}
	if awssdk.ToBool(n.RequesterManaged) {
		i.Requester, i.Type = awssdk.ToString(n.RequesterId), string(n.InterfaceType)
	}
	addrs, public, err := addresses(n)
	if err != nil {
		return i, fmt.Errorf("%s: %w", i.ID, err)
	}
	i.PrivateIPs, i.PublicIPs = addrs, public
	if i.Prefixes, err = delegated(n); err != nil {
		return i, fmt.Errorf("%s: %w", i.ID, err)
	}
	for _, g := range n.Groups {
		i.GroupIDs = append(i.GroupIDs, awssdk.ToString(g.GroupId))
	}
	slices.Sort(i.GroupIDs)
	return i, nil
}

// delegated returns the blocks of addresses that an interface has as a whole.
func delegated(n types.NetworkInterface) (out []netip.Prefix, err error) {
	var texts []string
	for _, p := range n.Ipv4Prefixes {
		texts = append(texts, awssdk.ToString(p.Ipv4Prefix))
	}
	for _, p := range n.Ipv6Prefixes {
		texts = append(texts, awssdk.ToString(p.Ipv6Prefix))
	}
	for _, s := range texts {
		p, err := ParsePrefix(s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out), nil
}

// ordinary reports whether an interface of this type is its owner's to change. All other types
// belong to a service.
func ordinary(t types.NetworkInterfaceType) bool {
	switch t {
	case "", types.NetworkInterfaceTypeInterface, types.NetworkInterfaceTypeEfa, types.NetworkInterfaceTypeTrunk, "efa-only":
		return true
	}
	return false
}

// addresses returns the private addresses, the primary one first, then IPv6, and the public ones
// behind them.
func addresses(n types.NetworkInterface) (private, public []netip.Addr, err error) {
	add := func(to *[]netip.Addr, s *string) {
		if s == nil || *s == "" || err != nil {
			return
		}
		a, parseErr := netip.ParseAddr(*s)
		if parseErr != nil {
			err = fmt.Errorf("%q is not an address", *s)
			return
		}
		if !slices.Contains(*to, a) {
			*to = append(*to, a)
		}
	}
	add(&private, n.PrivateIpAddress)
	if n.Association != nil {
		add(&public, n.Association.PublicIp)
	}
	for _, ip := range n.PrivateIpAddresses {
		add(&private, ip.PrivateIpAddress)
		if ip.Association != nil {
			add(&public, ip.Association.PublicIp)
		}
	}
	add(&private, n.Ipv6Address)
	for _, ip := range n.Ipv6Addresses {
		add(&private, ip.Ipv6Address)
	}
	return private, public, err
}

// Group reads a security group with its rules.
func Group(g types.SecurityGroup) (cloud.Group, error) {
	out := cloud.Group{
		ID: awssdk.ToString(g.GroupId), Name: awssdk.ToString(g.GroupName), NetworkID: awssdk.ToString(g.VpcId),
		OwnerID: awssdk.ToString(g.OwnerId), Description: awssdk.ToString(g.Description), Tags: TagMap(g.Tags),
	}
	out.Default = out.Name == "default"
	for _, half := range []struct {
		direction cloud.Direction
		perms     []types.IpPermission
	}{{cloud.Ingress, g.IpPermissions}, {cloud.Egress, g.IpPermissionsEgress}} {
		for _, perm := range half.perms {
			rules, err := Rules(half.direction, perm, out.OwnerID)
			if err != nil {
				return out, fmt.Errorf("%s: %w", out.ID, err)
			}
			out.Rules = append(out.Rules, rules...)
		}
	}
	slices.SortFunc(out.Rules, cloud.Rule.Compare)
	return out, nil
}

// managedWeights are the sizes of the cloud's own prefix lists, which it documents but does not
// tell, by name without the region.
var managedWeights = map[string]int{
	"cloudfront.origin-facing": 55, "groundstation": 5, "vpc-lattice": 10, "s3": 1, "dynamodb": 1,
}

// PrefixList reads the head of a prefix list; its entries are told by another call.
func PrefixList(l types.ManagedPrefixList) cloud.PrefixList {
	out := cloud.PrefixList{
		ID: awssdk.ToString(l.PrefixListId), Name: awssdk.ToString(l.PrefixListName), OwnerID: awssdk.ToString(l.OwnerId),
		MaxEntries: int(awssdk.ToInt32(l.MaxEntries)),
	}
	if out.OwnerID == cloud.CloudOwned {
		for name, weight := range managedWeights {
			if strings.HasSuffix(out.Name, "."+name) {
				out.MaxEntries = weight
			}
		}
	}
	return out
}
