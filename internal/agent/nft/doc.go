// Package nft says what computed policies mean as an nftables program. It is pure: no I/O, no
// clock, no goroutines.
//
// It owns the Program, a value of chains, rules and sets; Compile, which makes one from what an
// enforcer has received; Judge, which says what a Program does with a packet; and Diff, which says
// what must change to get from one Program to another. Package kernel brings a Program into the
// kernel and reads it back.
//
// It promises:
//
//   - Compile is a function of its input. Equal inputs give equal Programs, whoever compiled
//     before: names in the kernel are made from what they stand for, so a new process finds what a
//     former one left.
//   - A policy is in a Program as a whole, or is refused with a reason and not in it at all.
//   - A direction decides in the order tier, policy priority, rule index, and what no rule decides
//     is dropped where the host is isolated, else left to whatever else filters on the host.
//
// Programs are immutable once made and may be shared between goroutines.
package nft
