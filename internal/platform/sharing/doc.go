// Package sharing divides work between the replicas of a process, so that no part of it ever has
// two workers.
//
// Work is cut into shards by the hash of its key. A replica takes one of a few seats, which it
// renews; a table says which seat holds each shard. Rendezvous hashing over the taken seats decides
// which seat should hold a shard, so a seat that comes or goes moves no shard between the others. A
// shard is held as long as its holder's seat lasts: renewing one seat renews all of its shards.
//
// It promises that Pass, asked before every request, lets the requests of at most one replica
// through for a shard at any time. Why:
//
//   - A replica trusts its seat for Times.Fence, counted from the moment at which it began the last
//     renewal that succeeded. Clocks of two machines are never compared. Time counts by the
//     monotonic clock and by the wall clock, whichever has gone further.
//   - Others call a seat dead when they have seen it stand still for Times.Lease, which is longer,
//     counted from the end of the first reading that shows it to the beginning of the last one.
//   - A replica that has lost trust gives up all shards, and takes them again only by writing the
//     table. A replica that takes a shard from a dead seat also writes the table, so one of the two
//     writes fails.
//   - A table that is absent, or not as it was written, frees no shard. A replica that
//     reads it gives up all its shards. A table is trusted for Times.Fence, too; so when a damaged
//     one has stood for Times.Lease, no replica holds a shard, and the table is made anew.
//   - A process counts as dead only Times.Lease after its seat was deleted or edited.
//   - A replica that hands a shard to a living one first refuses new requests, waits for the
//     mutating requests in flight, and then writes the table.
//
// It cannot promise when a request sent before the fence takes effect: that depends on the server.
// The time between Fence and Lease allows for the delay.
//
// # Why shards and seats
//
// One process cannot work on an unlimited number of accounts, and a Deployment of two replicas with
// only one working never rolls out. A Lease per account or shard would take up to 333 writes a
// second instead of 0.7 per replica. The holder of the Lease nephele-controller runs engine, API,
// webhooks and history alone, because statuses have one writer; the Service leads to it by the
// label of its Pod. Not chosen: an EndpointSlice that the leader writes, which leads nowhere once
// it is stale; followers that relay, with which limits per address would count all callers as one.
// A replica costs the memory of all informers. The number of shards and the hash can never change.
// The mark of decision 0012 covers a request in flight.
//
// Concurrency: Start runs in one goroutine and owns the goroutines that it starts; all other
// methods of a Member may be called at any time. The functions of assign.go are pure.
package sharing
