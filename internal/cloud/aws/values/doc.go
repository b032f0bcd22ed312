// Package values translates between the values of EC2's SDK and the port's: networks, instances,
// interfaces, groups and their rules, network ACLs, prefix lists, tags.
//
// It promises that a rule that the port has comes back the same from Permissions and Rules, and
// that what cannot be read is an error, never left out. It is pure: no client, no clock, no state.
package values
