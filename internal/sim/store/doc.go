// Package store keeps what the simulated clouds hold, AWS by itself and Azure as an azure.Cloud,
// behind one lock. It has no calls of EC2: those are packages on top of it that read and change
// resources through a Site. What is the same for all of them is here: commits and hooks, ids,
// visibility of new resources, transitions, quotas, sharing of subnets, credentials and roles, and
// the saved state.
//
// It promises:
//
//   - Every mutation is atomic, as long as its function checks everything before it changes
//     anything: a refused one has changed nothing, and no hook sees it.
//   - Nothing happens by itself: time comes from the injected clock and ids from a counter and a
//     seed, so that the same mutations at the same times give the same state. Transitions that are
//     due are made before the next read or mutation.
//   - State is a deep copy, and Open of it gives the same Store again.
//
// Concurrency: a Store and its Sites may be used from any number of goroutines. Mutations are
// serialised; reads run beside one another. Hooks set by OnMutation run after the commit and before
// the next mutation starts, so a hook sees exactly the state that its mutation left. A hook may
// read the Store; it must not mutate it (that would deadlock). What a Site gives out is used within
// Read or Mutate only.
package store
