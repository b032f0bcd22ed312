// Package policytest supports tests of the policy engine: it reads manifests, draws random worlds
// and histories of changes, replays deltas as a subscriber does, and holds an oracle that computes
// policies the naive way, sharing no code with the engine.
//
// Only tests may rely on it. Nothing in it is safe for concurrent use.
package policytest
