// Package world is the pure, in-memory world that the simulator serves: the accounts of AWS with
// everything in them, and the Azure side, under one clock and one lock. It knows nothing of HTTP or
// XML; the wire protocols live in packages ec2 and arm and call this one.
//
// A World is a store.Store with the calls on it: Region gives the calls of one account in one
// region, by parts (Networks, Groups, Interfaces, ...). Allowed, Passes, Through and LookUp ask
// package packet about the present resources.
//
// What it promises:
//
//   - Every call is atomic: a refused mutation has changed nothing. Refusals are *aws.Error values
//     with the code, message and HTTP status of the real cloud.
//   - Describes return deep copies, sorted by id; a caller may keep and change them. Filters and
//     pages are the wire's work.
//   - Nothing happens by itself: the same calls at the same times give the same state.
//
// Concurrency: a World and its Region handles may be used from any number of goroutines; see
// package store for hooks.
package world
