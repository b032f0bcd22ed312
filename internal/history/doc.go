// Package history keeps what policies, groups and tiers were: one revision, an object of
// nephele.io, for each change of one, with who made it, as far as that is known, and what became of
// it.
//
// It owns the revisions: nobody else writes them, and it never acts on one. It is told of objects
// by those who watch them anyway, of authors by admission, and of calls by the record of changes;
// none of them waits for it, and what it cannot write it tries again without keeping more than
// there is.
//
// A revision is made where the content differs from that of the last one of the same object (by
// UID), so that neither a restart nor a watch that begins anew makes one. What changes too fast is
// summed up, each object and all of them together have a rate, and revisions are bounded by object,
// in number and in bytes. When there are too many, those of the namespace with the most go first:
// nobody pushes out the history of others.
//
// Concurrency: the methods of a Recorder may be called from any number of goroutines; one
// goroutine, that of Start, writes.
package history
