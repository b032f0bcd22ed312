// Package status sums up the objects of a cluster: accounts, virtual machines, policies, and the
// controllers and agents that work on them.
//
// It owns the Report and its judgement of what needs attention and what is under way. It promises
// that it only reads, with the rights of the role nephele-auditor, and page by page, so that of
// virtual machines and policies it keeps only numbers; the Report names what may not be read. It
// knows nothing but the objects: neither the clouds nor the process that enforces.
//
// Concurrency: Collect may be called by several goroutines with the same reader. A Report is a
// value that does not change.
package status
