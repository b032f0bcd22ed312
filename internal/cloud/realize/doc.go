// Package realize brings the computed policies of an account into its cloud.
//
// It owns one worker per account. A worker mirrors the computed objects of the account's enforcer
// key. Whenever these or the account's snapshots change, it plans against a fresh observation,
// applies the operations one by one, observes again, and goes on until the plan is empty. It
// promises:
//
//   - Nothing is changed in the cloud before all computed objects of the key, and a whole
//     observation of the region, are known.
//   - A failed call loses nothing: the next round starts from what the cloud shows. Failures are
//     followed by growing pauses; the next heartbeat replaces a lost wake-up.
//   - A failure of one account, or of one region, stops no other.
//   - A deleted account counts as released only when no group of ours is left in its regions.
//   - A change that is too large for the account's brake does not begin without a confirmation.
//   - No state is kept that a restart would need. Observations are shared with the inventory, so
//     that a region is not read twice.
//
// This package is the loop. Four packages below it decide and report: instance decides whether this
// process may write, brake decides what waits for a confirmation, past finds what others have
// changed, and status writes the outcome into the cluster.
//
// Concurrency: Realizer.Start owns all goroutines and returns when they have ended. All other
// methods may be called at any time.
package realize
