// Package azure is the pure, in-memory state of the simulated Azure: tenants with their principals,
// and per subscription the resource groups and resources (virtual machines, network interfaces,
// virtual networks, network and application security groups). It knows nothing of HTTP; package arm
// speaks the protocols over it.
//
// What it promises:
//
//   - A resource is the document that its owner wrote: PUT replaces it whole, what it leaves out is
//     gone, and a property that is not known here comes back as it was written. What the cloud
//     fills in (etag, provisioning state, back-references) is made anew for every answer.
//   - Every change is atomic: a refused one has changed nothing. Refusals are *Error values with
//     the code, message and status of the real cloud.
//   - Nothing happens by itself: times and randomness are passed in.
//   - Allowed decides a packet from the security groups of both ends and of their subnets,
//     independently of their author. Through follows one to the front end of a load balancer
//     or application gateway on to the targets, and Led one that routes lead to an interface.
//
// A Cloud is not safe for concurrent use. The Store that owns one (package store) serialises
// changes, and lets reads run beside one another; reads are marked as such below and change
// nothing.
package azure
