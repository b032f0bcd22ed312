// Package status sums up what the objects of a cluster say about Nephele: accounts, virtual
// machines, policies and who works on them.
//
// It owns the Report and its words of judgement (what needs attention, what is under way). It
// promises that it only reads, with the rights of the role nephele-auditor, and page by page, so
// that it keeps no more than numbers of virtual machines and policies; what it may not read it
// names. It knows nothing but the objects: not the clouds, and not the process that enforces.
//
// Concurrency: Collect may be called by several goroutines with the same reader. A Report is a
// value that nobody changes.
package status
