package rights

// Purpose says what a part of the rights permits, in Markdown for docs/reference/rights.md.
type Purpose struct {
	// Right is the name of a statement, or the beginning that several names share, then with an
	// asterisk behind it; in Optional, the actions or tags.
	Right string
	// Permits is what can be done with it; in Optional, what is lost without it.
	Permits string
	// KeepsOut is what its conditions do not permit.
	KeepsOut string
}

// Purposes lists the statements of a policy, each under one purpose.
func Purposes() []Purpose {
	return []Purpose{
		{"Read", "the inventory", "every change"},
		{"CreateGroups*", "new groups with the tag `nephele.io/cluster`", "groups without it; with `--vpc`, other VPCs"},
		{"TagGroupsWhenCreated", "tags of a group in the call that creates it", "making a foreign group look like ours"},
		{"ChangeOwnGroups", "rules and deletion of groups with that tag", "any other group"},
		{"ChangeRulesInPlace", "a rule, if the group that it is in may be changed", "rules of other groups"},
		{"AddToGroupsThatFollow", "rules of groups that their owner tagged `nephele.io/follow` ([0003](docs/decisions/0003-dependents.md))", "other groups; their tags and deletion. Leave it out where no group is to follow"},
		{"Remember*", "tags `nephele.io/...` of interfaces, VPCs, our groups and services", "all other tags"},
		{"PutInterfacesIntoGroups", "exchanging the groups of an interface", "with `--vpc`, other VPCs"},
		{"UseGroups*", "naming a group in that exchange", "other changes of the group"},
		{"ReadServices", "[native services](docs/native-services.md), one action for each kind", "every change"},
		{"GuardBalancers", "exchanging the groups of a load balancer", "its other settings"},
		{"GuardFileSystems", "exchanging the groups of a mount target", "its other settings"},
		{"GuardDatabases", "changing a database, because AWS has no right for its groups alone: this one could set a password", "databases without the owner's tag `nephele.io/guard`"},
		{"GuardCaches", "changing a cache, for the same reason", "caches without that tag"},
		{"GuardEndpoints", "changing an endpoint, for the same reason", "endpoints without that tag"},
		{"ListFlowLogs*", "finding files of [flow logs](docs/flows.md#from-a-bucket)", "other folders of the bucket"},
		{"ReadFlowLogs", "reading them", "other objects"},
	}
}

// Optional lists the rights without which Nephele does less.
func Optional() []Purpose {
	return []Purpose{
		{Right: "`ec2:DescribeSecurityGroupReferences`", Permits: "regions with a VPC peered to another account cannot be read"},
		{Right: "`ec2:DescribeManagedPrefixLists`, `ec2:GetManagedPrefixListEntries`", Permits: "regions where rules refer to prefix lists cannot be read"},
		{Right: "tags `nephele.io/policies-revision*` on VPCs", Permits: "many label changes at once take more edits"},
		{Right: "tags `nephele.io/instance`", Permits: "another control plane [with the same cluster id](docs/failures.md#the-same-control-plane-twice) does not see this one (`NotMarked`)"},
		{Right: "tags `nephele.io/former-signature` on interfaces", Permits: "records are not [signed](docs/decisions/0013-signed-records.md) (`NotPermitted`)"},
		{Right: "`sqs:ReceiveMessage`, `sqs:DeleteMessage`", Permits: "no [events](docs/events.md); they are not in the printed policy"},
		{Right: "`sts:AssumeRole`", Permits: "no role in another account; it is not in the printed policy"},
	}
}
