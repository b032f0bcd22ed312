// Package group has the calls of EC2 about security groups with their rules, and about managed
// prefix lists, which rules reference and which count in the quota of rules.
//
// Each call is atomic, answers with copies, and refuses with an *aws.Error as the cloud does. Rules
// are kept in their canonical form, one peer each, in the order of their creation. Whether a packet
// passes is not decided here.
//
// Concurrency: that of store.Store. The values of this package only point to a Site.
package group
