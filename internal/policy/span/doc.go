// Package span counts what concerns which enforcers.
//
// Hosts are the enforcer keys that entities have, by small numbers. Counts are a span: how many of
// something each host has, sorted by number. A Change records how a span differs from what it was,
// host by host or as a whole, until that is taken.
//
// To find a host in Counts costs the logarithm of their length, to take a Change the hosts that it
// notes. Nothing here is safe for concurrent use.
package span
