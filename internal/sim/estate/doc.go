// Package estate reads descriptions of cloud accounts for the simulator: dumps of real accounts
// (see Load for the formats) and short YAML files of our own (see docs/simulator.md). The result is
// a aws.State.
//
// Real dumps are rarely consistent: ids repeat, things refer to what is not there, host bits are
// set. Load repairs what it can, always in the same way for the same input, and tells every repair
// in its Report; nothing is dropped silently. What cannot be repaired is an error that names the
// file, the field and what was expected.
//
// The package keeps no state; its functions may be called concurrently.
//
// # Forms of descriptions
//
// A description is a file or folder, recognised by its content:
//
//   - describe answers as JSON, one file per call, in one folder per region (or one such folder; or
//     folders ACCOUNT/REGION): files named after the member they hold (Vpcs.json,
//     SecurityGroups.json, ...) or the command (ec2-describe-vpcs.json, describe-instances.json,
//     ...)
//   - collector dump, one JSON file: members vpcs, security_groups, instances, subnets; its region
//     is that of the VPCs, or of the subnets' zones
//   - estate YAML, a file or a folder of files: .yaml, .yml
//   - saved state of a simulator: members version and accounts
//
// Answers that are read: Vpcs, Subnets, NetworkInterfaces, Reservations, SecurityGroups,
// VpcPeeringConnections, PrefixLists, AvailabilityZones, Tags; optionally RouteTables, NetworkAcls,
// InternetGateways and, of native services, DBInstances, DBClusters, CacheClusters,
// ReplicationGroups, CacheSubnetGroups, LoadBalancers, Listeners, TargetGroups, VpcEndpoints,
// FileSystems, MountTargets, Functions. Other files are listed as not simulated. PrefixLists is
// what describe-prefix-lists and describe-managed-prefix-lists answer; the entries of a customer's
// list go into it as Entries, as get-managed-prefix-list-entries prints them. An answer with a
// NextToken is refused.
//
// nephele plan --snapshot accepts no gaps: a missing answer (an empty list is an answer), object or
// list entry is an error that says what is expected. Only prefix lists that no rule refers to and,
// in collector dumps, NetworkInterfaces and VpcPeeringConnections may be missing, which the output
// says. The simulator repairs dumps, always in the same way, and reports every repair:
//
//   - ids that are no wire ids get one that keeps the number (VpcId:22: vpc-00000000000000022); a
//     second interface or instance of one id gets a new one, other second objects are left out;
//   - missing VPCs, subnets, groups of interfaces, default groups and prefix lists are made up,
//     empty; a rule that refers to a missing group stays as stale: it counts in quotas and matches
//     nothing;
//   - a second group of one name is numbered; all objects belong to the owner of most; host bits
//     are masked; equal rules are kept once; odd addresses are kept.
//
// A file that is not what its name says, or an unreadable field, is an error with file, line or
// object, field and what was expected.
//
// Accounts without credentials get a key: AKIANEPHELESIMULATOR, then AKIANEPHELESIMULATOR2 and so
// on, secret nephele/simulator+default+key/not/secret. The account of a dump is the owner of its
// objects, or the folder in ACCOUNT/REGION if that has 12 digits.
//
// # Estate YAML
//
// Any object may have id (a wire id such as sg-0a1b2c3d) and, where AWS has them, tags. Ids that
// are not given depend on names only. Unknown fields are errors.
//
//   - VM: subnet defaults to the one that holds ip, else the first; ip to the next free address;
//     groups to the default group; state to running; type to t3.micro. ip and ipv6 take one address
//     or a list, ipv6: auto makes one up. public is an Elastic IP, or auto for an address assigned
//     while the VM runs.
//   - Rules: PROTOCOL [PORTS] from|to PEER[, PEER...] [-- DESCRIPTION]. from is ingress, to is
//     egress.
//   - PROTOCOL: tcp, udp, icmp, icmpv6, all or a number.
//   - PORTS: 80, 8000-8080, 80,443; left out = all. Of ICMP: TYPE or TYPE/CODE.
//   - PEER: a block or address, any (0.0.0.0/0, and ::/0 if the VPC has IPv6), any4, any6, self, a
//     group of the VPC, VPC/GROUP across a peering, list:NAME, or the id of a group.
//   - A group without a to rule allows all egress, as in AWS; egress: none takes that away.
//   - Quotas (default): groupsPerRegion (2500), rulesPerGroup (60, per direction and family),
//     groupsPerInterface (5, at most 16; times rulesPerGroup at most 1000), tagsPerResource (50),
//     vpcsPerRegion (5), subnetsPerVpc (200), prefixListsPerRegion (100), entriesPerPrefixList
//     (1000).
//
// # Native services
//
// Databases, caches, load balancers, private endpoints, functions and file systems stand in a VPC,
// beside vms:
//
// The example is docs/examples/estate/services.yaml.
//
// subnets defaults to all of the VPC, groups to the default group (network and gateway load
// balancers then have none and are not filtered), ip gives the nodes' addresses in order. Also
// port, version, class, public. Each service has requester-managed interfaces, as EC2 shows them:
//
//   - database: one, or members: RDSNetworkInterface: ModifyDBInstance
//   - database-cluster: one per member: RDSNetworkInterface: ModifyDBCluster
//   - cache: one per node: ElastiCache NAME: ModifyCacheCluster
//   - replication-group: one per member: ElastiCache NAME-001: ModifyReplicationGroup
//   - application-load-balancer, network-load-balancer: one per subnet: ELB app/NAME/HEX, ELB
//     net/NAME/HEX: SetSecurityGroups, unless made without groups
//   - gateway-load-balancer: one per subnet: ELB gwy/NAME/HEX: nothing
//   - endpoint: one per subnet: VPC Endpoint Interface vpce-...: ModifyVpcEndpoint
//   - function: one per subnet: AWS Lambda VPC ENI-NAME-...: UpdateFunctionConfiguration
//   - file-system: one mount target per subnet: EFS mount target for fs-... (fsmt-...):
//     ModifyMountTargetSecurityGroups
//
// EC2 itself refuses to change them (AuthFailure). With --transition-delay a changed service says
// so for that long (modifying, updating) and refuses other changes. In a dump a database's
// interface is found by zone and groups, what is missing is made up, and targets are not read.
//
// A flow to a balancer has two hops. /_sim/through (World.Through in Go) judges both: from the
// client to the front end, and from there to each target, with the address that the target sees and
// with health checks, which always come from the balancer. Targets that fail them are out of use
// while another is healthy. Cross-zone balancing counts as on.
package estate
