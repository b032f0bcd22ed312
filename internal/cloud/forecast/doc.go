// Package forecast computes where a plan leads, without a cloud: all rounds of planning until
// nothing is left to do, how full the quotas are before and after, and which flows open and close.
//
// It owns the comparison of two snapshots. Package plan/model says what operations do to a snapshot
// and what its rules mean. It looks only at groups, rules and interfaces, never at the planner's
// reasons, so a mistake of the planner shows in the difference. A flow is described as an interface
// sees it: a peer behind a group reference by its private address, any other peer by the address of
// the packet.
//
// All functions are pure: no I/O, no clock, no goroutines. They may be called concurrently and do
// not change what they are given.
package forecast
