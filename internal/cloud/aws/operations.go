package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/nephele-io/nephele/internal/cloud/aws/routing"
)

// operation is one operation of a client of EC2.
type operation[In, Out any] = routing.Operation[In, Out]

// operations are the operations of EC2 in one region that the adapter uses. A pointer to the client
// itself must not be kept in a struct or an interface: the linker would then keep every operation
// that the client has, some 700, which are a tenth of the program. The operations with a paginator
// are methods, as the paginators want them.
type operations struct {
	AuthorizeSecurityGroupEgress    operation[ec2.AuthorizeSecurityGroupEgressInput, ec2.AuthorizeSecurityGroupEgressOutput]
	AuthorizeSecurityGroupIngress   operation[ec2.AuthorizeSecurityGroupIngressInput, ec2.AuthorizeSecurityGroupIngressOutput]
	CreateSecurityGroup             operation[ec2.CreateSecurityGroupInput, ec2.CreateSecurityGroupOutput]
	CreateTags                      operation[ec2.CreateTagsInput, ec2.CreateTagsOutput]
	DeleteSecurityGroup             operation[ec2.DeleteSecurityGroupInput, ec2.DeleteSecurityGroupOutput]
	DeleteTags                      operation[ec2.DeleteTagsInput, ec2.DeleteTagsOutput]
	DescribeRegions                 operation[ec2.DescribeRegionsInput, ec2.DescribeRegionsOutput]
	DescribeSecurityGroupReferences operation[ec2.DescribeSecurityGroupReferencesInput, ec2.DescribeSecurityGroupReferencesOutput]
	DescribeVpcEndpoints            operation[ec2.DescribeVpcEndpointsInput, ec2.DescribeVpcEndpointsOutput]
	ModifyNetworkInterfaceAttribute operation[ec2.ModifyNetworkInterfaceAttributeInput, ec2.ModifyNetworkInterfaceAttributeOutput]
	ModifySecurityGroupRules        operation[ec2.ModifySecurityGroupRulesInput, ec2.ModifySecurityGroupRulesOutput]
	ModifyVpcEndpoint               operation[ec2.ModifyVpcEndpointInput, ec2.ModifyVpcEndpointOutput]
	RevokeSecurityGroupEgress       operation[ec2.RevokeSecurityGroupEgressInput, ec2.RevokeSecurityGroupEgressOutput]
	RevokeSecurityGroupIngress      operation[ec2.RevokeSecurityGroupIngressInput, ec2.RevokeSecurityGroupIngressOutput]

	createRoute                   operation[ec2.CreateRouteInput, ec2.CreateRouteOutput]
	deleteRoute                   operation[ec2.DeleteRouteInput, ec2.DeleteRouteOutput]
	describeInstances             operation[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
	describeManagedPrefixLists    operation[ec2.DescribeManagedPrefixListsInput, ec2.DescribeManagedPrefixListsOutput]
	describeNetworkAcls           operation[ec2.DescribeNetworkAclsInput, ec2.DescribeNetworkAclsOutput]
	describeNetworkInterfaces     operation[ec2.DescribeNetworkInterfacesInput, ec2.DescribeNetworkInterfacesOutput]
	describeRouteTables           operation[ec2.DescribeRouteTablesInput, ec2.DescribeRouteTablesOutput]
	describeSecurityGroupRules    operation[ec2.DescribeSecurityGroupRulesInput, ec2.DescribeSecurityGroupRulesOutput]
	describeSecurityGroups        operation[ec2.DescribeSecurityGroupsInput, ec2.DescribeSecurityGroupsOutput]
	describeVpcPeeringConnections operation[ec2.DescribeVpcPeeringConnectionsInput, ec2.DescribeVpcPeeringConnectionsOutput]
	describeVpcs                  operation[ec2.DescribeVpcsInput, ec2.DescribeVpcsOutput]
	getManagedPrefixListEntries   operation[ec2.GetManagedPrefixListEntriesInput, ec2.GetManagedPrefixListEntriesOutput]
	replaceRoute                  operation[ec2.ReplaceRouteInput, ec2.ReplaceRouteOutput]
}

func operationsOf(c *ec2.Client) *operations {
	return &operations{
		AuthorizeSecurityGroupEgress:    c.AuthorizeSecurityGroupEgress,
		AuthorizeSecurityGroupIngress:   c.AuthorizeSecurityGroupIngress,
		CreateSecurityGroup:             c.CreateSecurityGroup,
		CreateTags:                      c.CreateTags,
		DeleteSecurityGroup:             c.DeleteSecurityGroup,
		DeleteTags:                      c.DeleteTags,
		DescribeRegions:                 c.DescribeRegions,
		DescribeSecurityGroupReferences: c.DescribeSecurityGroupReferences,
		DescribeVpcEndpoints:            c.DescribeVpcEndpoints,
		ModifyNetworkInterfaceAttribute: c.ModifyNetworkInterfaceAttribute,
		ModifySecurityGroupRules:        c.ModifySecurityGroupRules,
		ModifyVpcEndpoint:               c.ModifyVpcEndpoint,
		RevokeSecurityGroupEgress:       c.RevokeSecurityGroupEgress,
		RevokeSecurityGroupIngress:      c.RevokeSecurityGroupIngress,
		createRoute:                     c.CreateRoute,
		deleteRoute:                     c.DeleteRoute,
		describeInstances:               c.DescribeInstances,
		describeManagedPrefixLists:      c.DescribeManagedPrefixLists,
		describeNetworkAcls:             c.DescribeNetworkAcls,
		describeNetworkInterfaces:       c.DescribeNetworkInterfaces,
		describeRouteTables:             c.DescribeRouteTables,
		describeSecurityGroupRules:      c.DescribeSecurityGroupRules,
		describeSecurityGroups:          c.DescribeSecurityGroups,
		describeVpcPeeringConnections:   c.DescribeVpcPeeringConnections,
		describeVpcs:                    c.DescribeVpcs,
		getManagedPrefixListEntries:     c.GetManagedPrefixListEntries,
		replaceRoute:                    c.ReplaceRoute,
	}
}

func (o *operations) DescribeInstances(
	ctx context.Context, in *ec2.DescribeInstancesInput, options ...func(*ec2.Options),
) (*ec2.DescribeInstancesOutput, error) {
	return o.describeInstances(ctx, in, options...)
}

func (o *operations) DescribeManagedPrefixLists(
	ctx context.Context, in *ec2.DescribeManagedPrefixListsInput, options ...func(*ec2.Options),
) (*ec2.DescribeManagedPrefixListsOutput, error) {
	return o.describeManagedPrefixLists(ctx, in, options...)
}

func (o *operations) DescribeNetworkAcls(
	ctx context.Context, in *ec2.DescribeNetworkAclsInput, options ...func(*ec2.Options),
) (*ec2.DescribeNetworkAclsOutput, error) {
	return o.describeNetworkAcls(ctx, in, options...)
}

func (o *operations) DescribeNetworkInterfaces(
	ctx context.Context, in *ec2.DescribeNetworkInterfacesInput, options ...func(*ec2.Options),
) (*ec2.DescribeNetworkInterfacesOutput, error) {
	return o.describeNetworkInterfaces(ctx, in, options...)
}

func (o *operations) DescribeSecurityGroupRules(
	ctx context.Context, in *ec2.DescribeSecurityGroupRulesInput, options ...func(*ec2.Options),
) (*ec2.DescribeSecurityGroupRulesOutput, error) {
	return o.describeSecurityGroupRules(ctx, in, options...)
}

func (o *operations) DescribeSecurityGroups(
	ctx context.Context, in *ec2.DescribeSecurityGroupsInput, options ...func(*ec2.Options),
) (*ec2.DescribeSecurityGroupsOutput, error) {
	return o.describeSecurityGroups(ctx, in, options...)
}

func (o *operations) DescribeVpcPeeringConnections(
	ctx context.Context, in *ec2.DescribeVpcPeeringConnectionsInput, options ...func(*ec2.Options),
) (*ec2.DescribeVpcPeeringConnectionsOutput, error) {
	return o.describeVpcPeeringConnections(ctx, in, options...)
}

func (o *operations) DescribeVpcs(
	ctx context.Context, in *ec2.DescribeVpcsInput, options ...func(*ec2.Options),
) (*ec2.DescribeVpcsOutput, error) {
	return o.describeVpcs(ctx, in, options...)
}

func (o *operations) GetManagedPrefixListEntries(
	ctx context.Context, in *ec2.GetManagedPrefixListEntriesInput, options ...func(*ec2.Options),
) (*ec2.GetManagedPrefixListEntriesOutput, error) {
	return o.getManagedPrefixListEntries(ctx, in, options...)
}
