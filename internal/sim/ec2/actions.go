package ec2

import (
	"maps"

	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// ec2Actions names every EC2 action that the simulator knows.
func ec2Actions() map[string]action {
	all := map[string]action{
		"DescribeRegions":               describeRegions,
		"DescribeAvailabilityZones":     describeAvailabilityZones,
		"DescribeVpcs":                  describeVPCs,
		"DescribeSubnets":               describeSubnets,
		"CreateVpc":                     createVPC,
		"CreateSubnet":                  createSubnet,
		"DescribeVpcPeeringConnections": describePeerings,

		"DescribeInstances":         describeInstances,
		"DescribeInstanceStatus":    describeInstanceStatus,
		"RunInstances":              runInstances,
		"StartInstances":            startInstances,
		"StopInstances":             stopInstances,
		"TerminateInstances":        terminateInstances,
		"DescribeNetworkInterfaces": describeNetworkInterfaces,

		"DescribeTags": describeTags,
		"CreateTags":   createTags,
		"DeleteTags":   deleteTags,

		"DescribeSecurityGroups":          describeSecurityGroups,
		"DescribeSecurityGroupRules":      describeSecurityGroupRules,
		"DescribeSecurityGroupReferences": describeSecurityGroupReferences,
		"CreateSecurityGroup":             createSecurityGroup,
		"DeleteSecurityGroup":             deleteSecurityGroup,
		"AuthorizeSecurityGroupIngress":   authorize(false),
		"AuthorizeSecurityGroupEgress":    authorize(true),
		"RevokeSecurityGroupIngress":      revoke(false),
		"RevokeSecurityGroupEgress":       revoke(true),
		"ModifySecurityGroupRules":        modifySecurityGroupRules,

		"UpdateSecurityGroupRuleDescriptionsIngress": updateRuleDescriptions(false),
		"UpdateSecurityGroupRuleDescriptionsEgress":  updateRuleDescriptions(true),

		"DescribeManagedPrefixLists":  describeManagedPrefixLists,
		"GetManagedPrefixListEntries": getManagedPrefixListEntries,
		"CreateManagedPrefixList":     createManagedPrefixList,
		"ModifyManagedPrefixList":     modifyManagedPrefixList,
		"DeleteManagedPrefixList":     deleteManagedPrefixList,
	}
	for _, more := range []map[string]action{interfaceActions(), vpcActions(), routeActions(), aclActions(), templateActions(), endpointActions()} {
		maps.Copy(all, more)
	}
	return all
}

// stsActions names every STS action that the simulator knows.
func stsActions() map[string]action {
	return map[string]action{
		"GetCallerIdentity": getCallerIdentity,
		"AssumeRole":        assumeRole,
	}
}

// done is the answer of an action that says no more than that it worked.
func done(err error) ([]wire.Element, error) {
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Bool("return", true)}, nil
}

// need returns the value of a required parameter.
func need(r *request, key string) (string, error) {
	v := r.params.String(key)
	if v == "" {
		return "", codec.Missing(key)
	}
	return v, nil
}

// needList returns the values of a required list.
func needList(r *request, key string) ([]string, error) {
	v := r.params.Strings(key)
	if len(v) == 0 {
		return nil, codec.Missing(key)
	}
	return v, nil
}
