package aws

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

var _ cloud.ACLReader = (*Provider)(nil)

// NetworkACLs implements cloud.ACLReader. It needs a right that Nephele needs for nothing else.
func (p *Provider) NetworkACLs(ctx context.Context, s cloud.Scope) ([]cloud.NetworkACL, error) {
	const call = "DescribeNetworkAcls"
	var out []cloud.NetworkACL
	pager := ec2.NewDescribeNetworkAclsPaginator(p.region(s.Region), &ec2.DescribeNetworkAclsInput{MaxResults: awssdk.Int32(p.cfg.PageSize)})
	err := each(ctx, p, call, pager, func(page *ec2.DescribeNetworkAclsOutput) error {
		for _, a := range page.NetworkAcls {
			acl, err := networkACL(a)
			if err != nil {
				return &cloud.Error{Class: cloud.Terminal, Call: call, Err: err}
			}
			out = append(out, acl)
		}
		return nil
	})
	if err != nil {
		return nil, p.explainAuth(ctx, s.Region, err)
	}
	slices.SortFunc(out, func(a, b cloud.NetworkACL) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// lastEntry is the number of the entries at the end of every ACL, which deny.
const lastEntry = 32767

func networkACL(a types.NetworkAcl) (cloud.NetworkACL, error) {
	out := cloud.NetworkACL{ID: awssdk.ToString(a.NetworkAclId)}
	for _, x := range a.Associations {
		out.SubnetIDs = append(out.SubnetIDs, awssdk.ToString(x.SubnetId))
	}
	for _, e := range a.Entries {
		entry := cloud.ACLEntry{Number: int(awssdk.ToInt32(e.RuleNumber)), Egress: awssdk.ToBool(e.Egress), Allow: e.RuleAction == types.RuleActionAllow}
		if entry.Number >= lastEntry {
			continue
		}
		peer, err := netip.ParsePrefix(cmp.Or(awssdk.ToString(e.CidrBlock), awssdk.ToString(e.Ipv6CidrBlock)))
		if err != nil {
			return out, fmt.Errorf("network ACL %s: entry %d: %w", out.ID, entry.Number, err)
		}
		entry.Peers = []netip.Prefix{peer}
		if entry.Protocol, err = strconv.Atoi(awssdk.ToString(e.Protocol)); err != nil {
			return out, fmt.Errorf("network ACL %s: entry %d: protocol: %w", out.ID, entry.Number, err)
		}
		if entry.Protocol == -1 {
			entry.Protocol = cloud.AnyProtocol
		}
		switch {
		case e.PortRange != nil:
			entry.From, entry.To = int(awssdk.ToInt32(e.PortRange.From)), int(awssdk.ToInt32(e.PortRange.To))
		case e.IcmpTypeCode != nil:
			entry.From, entry.To = int(awssdk.ToInt32(e.IcmpTypeCode.Type)), int(awssdk.ToInt32(e.IcmpTypeCode.Code))
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}
