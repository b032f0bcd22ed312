// Package sharing divides work between the replicas of a process, so that no part of it ever has
// two workers.
//
// Work is cut into shards by the hash of its key. A replica sits on one of a few seats, which it
// renews; a table says who holds each shard. Who is to hold a shard follows from the seats that are
// taken, by rendezvous hashing, so that a seat that comes or goes moves no shard between the
// others. A shard that somebody holds counts as long as his seat does: renewing one seat renews all
// of them.
//
// It promises that Pass, asked before every request, lets those of at most one replica through for
// one shard at any time. Why:
//
//   - A replica trusts its seat for Times.Fence, counted from the moment at which it began the last
//     renewal that succeeded. Clocks of two machines are never compared. Time counts by the
//     monotonic clock and by the wall clock, whichever has gone further.
//   - Others call a seat dead when they have seen it stand still for Times.Lease, which is longer,
//     counted from the end of the first reading that shows it to the beginning of the last one.
//   - Whoever has lost trust gives up all shards, and takes them again only by writing the table. He
//     who takes a shard from a dead seat writes the table as well, so of the two one fails.
//   - A table that is absent, or not as it was written, says of no shard that it is free. Whoever
//     reads it gives up all he holds. What a table says is trusted for Times.Fence as well, so when
//     such a one has stood for Times.Lease, nobody holds anything, and it is made anew.
//   - A process that no seat tells of any more, because somebody has deleted or edited the seat, is
//     dead only when that has been so for Times.Lease.
//   - Who gives a shard to a living replica first refuses new requests, waits for those on their
//     way that change something, and then writes that he has.
//
// What it cannot promise: a request that was sent before the fence may take effect later, for as
// long as the other side takes. The time between Fence and Lease is for that.
//
// Concurrency: Start runs in one goroutine and owns those that it begins; all other methods of a
// Member may be called at any time. The functions of assign.go are pure.
package sharing
