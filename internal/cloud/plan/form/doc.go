// Package form finds the form in which what a class of interfaces must allow fits into the quotas:
// by group, by membership group, by prefix list or by block of addresses.
//
// It owns what a design of a region consists of, classes and groups, and decides nothing about it:
// it says what fits, how, and what is lacking where nothing does. What it has found out it
// remembers for the rest of an attempt, or as long as the recall lasts that it is given.
//
// It is pure. One goroutine may use a Fitter at a time.
package form
