package aws

import (
	"cmp"
	"context"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

var _ cloud.ACLReader = (*Provider)(nil)

// NetworkACLs implements cloud.ACLReader. It needs a right that Nephele needs for nothing else.
func (p *Provider) NetworkACLs(ctx context.Context, s cloud.Scope) ([]cloud.NetworkACL, error) {
	const call = "DescribeNetworkAcls"
	var out []cloud.NetworkACL
	pager := ec2.NewDescribeNetworkAclsPaginator(p.region(s.Region), &ec2.DescribeNetworkAclsInput{MaxResults: awssdk.Int32(p.cfg.PageSize)})
	err := each(ctx, p, call, pager, func(page *ec2.DescribeNetworkAclsOutput) error {
		for _, a := range page.NetworkAcls {
			acl, err := values.ACL(a)
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
