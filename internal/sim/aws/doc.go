// Package aws has the resources of the simulated AWS as values: accounts, credentials and roles,
// and per account and region the objects of EC2 (VPCs, subnets, peerings, route tables, network
// ACLs, gateways, instances, network interfaces, launch templates, security groups with their
// rules, prefix lists, tags). It has the parameters of the calls, the refusals in the words of the
// cloud, the form of ids and rules, and State, which is everything that a simulator saves.
//
// It promises:
//
//   - A value that the cloud would refuse by itself, whatever else there is, is refused here with
//     the code, message and HTTP status of the cloud, as an *Error.
//   - Rules, protocols and blocks have one canonical spelling, so that equal ones compare equal.
//   - State.Check finds everything that does not fit together.
//
// Everything here is pure and decides nothing about packets. Values have no lock: the owner of one
// may change it, and gives out Clones. The other packages build on it: packet decides what becomes
// of packets; network, group, compute and service are the calls; package store keeps the resources
// and commits changes; package world puts all of them together.
//
// # What is modelled
//
// Modelled: accounts, regions, credentials, IAM roles, VPCs with several IPv4 and IPv6 blocks,
// subnets (also shared, sharedWith in a saved state), peerings (also across accounts and regions),
// instances and their states, network interfaces (several per instance, secondary, IPv6 and public
// addresses, interfaces of services, detached ones), security groups, managed prefix lists, route
// tables, network ACLs, internet gateways, launch templates, tags, quotas, eventual consistency.
//
// Not modelled: NAT, egress-only and transit gateways and endpoints (a route may name one), VPC
// associations, sharing of groups. Power states play no part in verdicts.
//
// A credential or role may have an IAM policy (policy:) with allow and deny statements over
// actions, resources and string conditions; anything else in it is an error. Without one it may do
// everything. Changing actions ask for the resources they name, with their tags; creating actions
// also for what the object is made in, and for ec2:CreateTags if tags are given. Reading, and
// RunInstances, know only the resource *.
package aws
