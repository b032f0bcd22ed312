// Package forecast says what a plan would lead to, without a cloud: all rounds of planning until
// nothing is left to do, how full the quotas are before and after, and which flows open and which
// close.
//
// It owns the comparison of two snapshots. What operations do to a snapshot and what its rules mean
// comes from plan/model, which looks only at groups, rules and interfaces, never at how the planner
// came to them, so that a mistake of the planner shows in the difference that people read. Flows
// are told as an interface sees them: peers by the private address behind a group reference, all
// others by the address of the packet.
//
// All functions are pure: no I/O, no clock, no goroutines. They may be called concurrently and do
// not change what they are given.
package forecast
