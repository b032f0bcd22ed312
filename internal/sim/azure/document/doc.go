// Package document reads the documents of Azure resources.
//
// It owns the form of identifiers, of virtual networks, interfaces, machines, security groups, load
// balancers and application gateways, and of refusals. It promises:
//
//   - A document that the cloud would refuse by itself, whatever else there is, is refused with the
//     code, message and status of the cloud.
//   - Identifiers are compared as the cloud does, without regard to case.
//   - What a parsed value leaves out has no part in a decision about packets.
//
// It does not know which resources there are. Everything here is pure, and may be used by any
// number of goroutines; parsed values are not changed after they were made.
package document
