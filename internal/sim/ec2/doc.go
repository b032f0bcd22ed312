// Package ec2 speaks the EC2 and STS query protocols over a world.World: it authenticates requests
// (Signature Version 4), reads their parameters, runs the action on the world and writes the answer
// in the XML of the service, with its error codes, HTTP statuses and pages. At the same door it
// speaks the JSON protocol of SQS over sqs.Queues, which events of the world are put into, and the
// protocols of native services (RDS, ElastiCache, Elastic Load Balancing, EFS, Lambda), whose
// actions package nativeapi knows.
//
// One Handler serves all accounts and regions: the access key in the credential scope of a request
// tells the account, the scope tells region and service. Beyond the protocol it can throttle like
// the service (Throttle), disturb chosen calls (Faults), wait (Latency), and it keeps a Journal of
// all calls.
//
// A Handler, and each of these parts, may be used by any number of goroutines. It starts none
// itself; a request is finished when ServeHTTP returns. What the answer of a call says has been
// true at one moment between its arrival and its answer; order between concurrent calls is that of
// the world's mutations.
//
// # The protocol
//
// One endpoint over plain HTTP serves all accounts and regions: the signature names region, service
// and key, the key names the account. Requests are checked as AWS does (Signature Version 4 within
// 15 minutes; session keys need their token and expire by simulated time). Point a client at it by
// AWS_ENDPOINT_URL, --endpoint-url, BaseEndpoint in Go, or endpoint of a CloudProviderAccount.
//
//   - EC2, networks: DescribeRegions, DescribeAvailabilityZones; Describe-, Create-, DeleteVpc and
//     -Subnet; Describe-, ModifyVpcAttribute, ModifySubnetAttribute; Associate-,
//     DisassociateVpcCidrBlock; Describe-, Create-, Accept-, Reject-, DeleteVpcPeeringConnection;
//     Describe-, Create-, Attach-, Detach-, DeleteInternetGateway; Describe-, Create-, Delete-,
//     Associate-, DisassociateRouteTable, ReplaceRouteTableAssociation; Create-, Replace-,
//     DeleteRoute; Describe-, Create-, DeleteNetworkAcl, Create-, Replace-, DeleteNetworkAclEntry,
//     ReplaceNetworkAclAssociation; DescribeVpcEndpoints, ModifyVpcEndpoint (groups)
//   - EC2, machines: DescribeInstances, DescribeInstanceStatus, Run-, Start-, Stop-,
//     TerminateInstances; Describe-, ModifyInstanceAttribute (groups, type, source and destination
//     check, protection, shutdown behaviour, user data); Describe-, Create-, Modify-,
//     DeleteLaunchTemplate, Describe-, CreateLaunchTemplateVersion; DescribeNetworkInterfaces,
//     Create-, Attach-, Detach-, DeleteNetworkInterface; Describe-, ModifyNetworkInterfaceAttribute
//     (groups, description, source and destination check, attachment); Assign-,
//     UnassignPrivateIpAddresses; DescribeTags, CreateTags, DeleteTags
//   - EC2, groups: DescribeSecurityGroups, DescribeSecurityGroupRules,
//     DescribeSecurityGroupReferences, Create-, DeleteSecurityGroup, Authorize- and
//     RevokeSecurityGroupIngress and -Egress, ModifySecurityGroupRules,
//     UpdateSecurityGroupRuleDescriptionsIngress and -Egress; DescribeManagedPrefixLists,
//     GetManagedPrefixListEntries, Create-, Modify-, DeleteManagedPrefixList
//   - RDS: DescribeDBInstances, DescribeDBClusters, ModifyDBInstance, ModifyDBCluster (groups),
//     ListTagsForResource, AddTagsToResource, RemoveTagsFromResource
//   - ElastiCache: DescribeCacheClusters, DescribeReplicationGroups, DescribeCacheSubnetGroups,
//     ModifyCacheCluster, ModifyReplicationGroup (groups), the same for tags
//   - Elastic Load Balancing v2: DescribeLoadBalancers, DescribeListeners, DescribeTargetGroups,
//     DescribeTargetGroupAttributes, DescribeTargetHealth, SetSecurityGroups, DescribeTags,
//     AddTags, RemoveTags
//   - EFS: DescribeFileSystems, DescribeMountTargets, Describe-, ModifyMountTargetSecurityGroups,
//     ListTagsForResource, TagResource, UntagResource
//   - Lambda: ListFunctions, Get-, UpdateFunctionConfiguration (groups), ListTags, TagResource,
//     UntagResource
//   - STS: GetCallerIdentity, AssumeRole
//   - SQS: CreateQueue, GetQueueUrl, ListQueues, GetQueueAttributes, DeleteQueue, SendMessage,
//     ReceiveMessage, DeleteMessage(Batch), ChangeMessageVisibility(Batch)
//
// Any other action is InvalidAction. Terraform's AWS provider works for VPCs, subnets, gateways,
// routes, ACLs, groups and rules, templates, instances and interfaces, but not for images, volumes
// and instance types.
//
//   - Filters: AND between filters, OR between values, *, ? and \, tag:KEY, tag-key, tag-value.
//     Unknown filters, also those on things not modelled, are InvalidParameterValue.
//   - Pages: without MaxResults everything is returned, but at most 1000 instances or tags, and 100
//     prefix lists or entries, in the order of ids. A token is only good for its request.
//   - DryRun answers DryRunOperation before parameters are looked at.
//   - Parameters without meaning here (user data, block devices, ...) are accepted and named in the
//     journal under ignored. Attributes that cannot be changed are UnsupportedOperation.
//   - Throttling: one token bucket per account, region and action with EC2's published sizes;
//     beyond it RequestLimitExceeded (503). Starting and stopping costs one token per instance too.
//     Other services use the same sizes and refuse with Throttling, ThrottlingException (EFS) or
//     TooManyRequestsException (Lambda).
//   - Tags of native services have letters, digits, spaces and _.:/=+-@ only.
//
// # Queues and events
//
// SQS speaks its JSON protocol 1.0 at the same endpoint. Queues are standard queues: at least once,
// no order, visibility timeout (30 s or the attribute), retention, delays, long polls of up to 20
// s. They are not in the state file.
//
// Each region puts its events into its queue nephele-events, or that of --event-queue, if it
// exists: AWS API Call via CloudTrail for every changing call, also of native services and what
// these do to their interfaces, and EC2 Instance State-change Notification. In Go,
// sim.Options.Events can deliver events several times (Copies) and in random order (Shuffle).
package ec2
