// Package realize brings the computed policies of an account into its cloud.
//
// It owns one worker per account. A worker mirrors the computed objects of the account's enforcer
// key, and whenever these or the account's snapshots change it plans against a fresh observation,
// applies the operations one by one, observes again, and goes on until the plan is empty. It
// promises that nothing is changed in the cloud before all computed objects of the key and a whole
// observation of the region are known, that a failed call loses nothing (the next round starts from
// what the cloud says), that an account's failure concerns no other account and a region's failure
// no other region, that failures are followed by growing pauses, that a wake-up that was lost is
// made up for at the next heartbeat, and that a deleted account counts as released only when no
// group of ours is left in any of its regions. What is too large a change for the account's brake
// is not begun before somebody confirms it. It keeps no state that a restart would need. What it
// has read it hands to whoever knows the accounts, so that nobody reads it again.
//
// Four packages below it decide and tell: instance whether this process may write, brake what waits
// for a confirmation, past what somebody else has changed, and status what the cluster hears of it.
// What is left here is the loop.
//
// Concurrency: Realizer.Start owns all goroutines and returns when they have ended. All other
// methods may be called at any time.
package realize
