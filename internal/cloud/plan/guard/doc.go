// Package guard decides which interfaces of a region are guarded, members or untouched, and what
// becomes of those that depend on guarded ones.
//
// It owns the reasons why an interface is not taken over or stays as it is, and which policies a VM
// does without. It knows neither classes nor rules of ours: the packages that make these report to
// it what does not fit. From the order of changes it learns only which directions to hold at what
// is allowed both now and in the end (Restrict).
//
// It is pure. One goroutine may use States at a time.
package guard
