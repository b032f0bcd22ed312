// Package ruleset says what an nftables program is: a value of chains, rules, sets and dispatches.
// It is pure: no I/O, no clock, no goroutines.
//
// It owns the Program; the names, keys and numbers that compiler and kernel share; Judge, which
// computes what a Program does with a packet; and Diff, which computes the changes from one Program
// to another. It does not know where a Program comes from: package nft compiles one from policies,
// and package kernel brings it into the kernel.
//
// It promises:
//
//   - Names in the kernel are derived from what they represent, so a new process finds what a
//     former one left.
//   - Judge decides as the kernel would, packet by packet, without looking at anything but the
//     Program and the Packet.
//   - Diff of two equal Programs is empty. If the second Program was made from the first, the cost
//     of Diff depends only on what differs.
//
// Programs, Parts and Changes are immutable once made and may be shared between goroutines. A
// PartsEdit is for one goroutine.
package ruleset
