// Package network has the calls of EC2 about networks: VPCs and subnets, peering connections, route
// tables and internet gateways, network ACLs.
//
// Each call is atomic, answers with copies, and refuses with an *aws.Error as the cloud does.
// Describes are sorted by id; filters and pages are the wire's work. A VPC comes with its default
// group, main route table and default ACL, and goes with them. Whether a packet passes is not
// decided here.
//
// Concurrency: that of store.Store. The values of this package only point to a Site.
package network
